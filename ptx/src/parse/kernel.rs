//! Kernels: signature, declarations, labels and the statements of the body.

use std::collections::HashMap;

use super::lexer::{Token, TokenKind};
use super::mods::Mods;
use super::{ParseError, ParseErrorKind, Parser, Result};
use crate::ast::{Guard, Inst, Kernel, Label, Op, Param, Reg, RegDecl, SharedVar, Special, Stmt, Type};

/// What a name of the kernel stands for.
#[derive(Clone, Copy)]
pub(super) enum Name {
    Reg(u32),
    Param(u32),
    Shared(u32),
    Label(u32),
}

/// A kernel while it is read.
pub(super) struct Scope<'t> {
    pub(super) kernel: Kernel,
    pub(super) names: HashMap<String, Name>,
    /// Branches met so far: index of the statement and the target's token.
    branches: Vec<(usize, Token<'t>)>,
}

impl Scope<'_> {
    fn declare(&mut self, token: &Token<'_>, name: String, what: Name) -> Result<()> {
        let special = |n: &str| Special::ALL.iter().any(|s| s.name().split('.').next() == Some(n));
        if special(&name) {
            return Err(ParseError::at(token, ParseErrorKind::ReservedName));
        }
        if self.names.insert(name, what).is_some() {
            return Err(ParseError::at(token, ParseErrorKind::DuplicateName));
        }
        Ok(())
    }
}

impl<'t> Parser<'t> {
    /// `.visible .entry name`
    pub(super) fn kernel_head(&mut self) -> Result<Token<'t>> {
        self.directive(".visible", "`.visible .entry`, or the end of the text")?;
        self.directive(".entry", "`.entry`")?;
        self.name("the name of the kernel")
    }

    pub(super) fn kernel(&mut self, name: Token<'t>) -> Result<Kernel> {
        let mut scope = Scope {
            kernel: Kernel {
                name: name.text.to_owned(),
                params: Vec::new(),
                max_ntid: None,
                regs: Vec::new(),
                shared: Vec::new(),
                labels: Vec::new(),
                body: Vec::new(),
            },
            names: HashMap::new(),
            branches: Vec::new(),
        };
        self.params(&mut scope)?;
        if self.at_directive(".maxntid") {
            self.advance()?;
            scope.kernel.max_ntid = Some(self.block_size()?);
        }
        self.punct('{', "`{`, or `.maxntid`")?;
        // Opcodes by statement, for the place of what the validator finds.
        let mut opcodes = Vec::new();
        while !self.at_punct('}') {
            self.statement(&mut scope, &mut opcodes)?;
        }
        self.advance()?;
        for (stmt, token) in &scope.branches {
            let Some(Name::Label(index)) = scope.names.get(token.text) else {
                return Err(ParseError::at(token, ParseErrorKind::UndefinedLabel));
            };
            if let Stmt::Inst(Inst { op: Op::Bra { target, .. }, .. }) = &mut scope.kernel.body[*stmt] {
                *target = Label(*index);
            }
        }
        match crate::validate::kernel(&scope.kernel) {
            Ok(()) => Ok(scope.kernel),
            Err(error) => {
                let token = error.stmt.and_then(|i| opcodes.get(i)).copied();
                Err(ParseError::invalid(error, &name, token.unwrap_or("")))
            }
        }
    }

    fn params(&mut self, scope: &mut Scope<'_>) -> Result<()> {
        self.punct('(', "`(` and the parameters")?;
        while !self.eat_punct(')')? {
            if !scope.kernel.params.is_empty() {
                self.punct(',', "`,` or `)`")?;
            }
            let index = scope.kernel.params.len();
            if index == self.limits.variables {
                return Err(self.too_much("parameters", self.limits.variables));
            }
            self.directive(".param", "`.param`")?;
            let ty = self.declared_type()?;
            let name = self.name("the name of the parameter")?;
            scope.declare(&name, name.text.to_owned(), Name::Param(index as u32))?;
            scope.kernel.params.push(Param { name: name.text.to_owned(), ty });
        }
        Ok(())
    }

    fn block_size(&mut self) -> Result<[u32; 3]> {
        let mut size = [1; 3];
        for (i, extent) in size.iter_mut().enumerate() {
            if i > 0 && !self.eat_punct(',')? {
                break;
            }
            *extent = self.u32("a number of threads")?;
        }
        Ok(size)
    }

    fn declared_type(&mut self) -> Result<Type> {
        match self.token.text.strip_prefix('.').and_then(Type::from_name) {
            Some(ty) if self.at(TokenKind::Dot) => {
                self.advance()?;
                Ok(ty)
            }
            _ => self.unexpected("a type such as .u32"),
        }
    }

    fn statement(&mut self, scope: &mut Scope<'t>, opcodes: &mut Vec<&'t str>) -> Result<()> {
        if self.at_directive(".reg") {
            self.advance()?;
            return self.registers(scope);
        }
        if self.at_directive(".shared") {
            self.advance()?;
            return self.shared(scope);
        }
        if self.statements == self.limits.statements {
            return Err(self.too_much("statements", self.limits.statements));
        }
        self.statements += 1;
        let pos = self.pos();
        let guard = self.guard(scope)?;
        let word = self.name("a declaration, a label, an instruction or `}` (nested blocks are not in the subset)")?;
        if guard.is_none() && self.eat_punct(':')? {
            let index = scope.kernel.labels.len() as u32;
            scope.declare(&word, word.text.to_owned(), Name::Label(index))?;
            scope.kernel.labels.push(word.text.to_owned());
            scope.kernel.body.push(Stmt::Label(Label(index)));
            opcodes.push(word.text);
            return Ok(());
        }
        let mut mods = Mods::read(self, word)?;
        let op = if word.text == "bra" {
            let uni = mods.eat("uni");
            mods.end()?;
            let target = self.name("a label")?;
            scope.branches.push((scope.kernel.body.len(), target));
            Op::Bra { uni, target: Label(u32::MAX) }
        } else {
            self.instruction(&mut mods, scope)?
        };
        self.punct(';', "`;` after the operands")?;
        scope.kernel.body.push(Stmt::Inst(Inst { guard, op, pos }));
        opcodes.push(word.text);
        Ok(())
    }

    fn guard(&mut self, scope: &Scope<'_>) -> Result<Option<Guard>> {
        if !self.eat_punct('@')? {
            return Ok(None);
        }
        let negate = self.eat_punct('!')?;
        let reg = self.reg(scope)?;
        Ok(Some(Guard { reg, negate }))
    }

    /// `.b32 %r<10>, %x;`
    fn registers(&mut self, scope: &mut Scope<'_>) -> Result<()> {
        let ty = self.declared_type()?;
        loop {
            let name = self.name("the name of a register")?;
            if self.eat_punct('<')? {
                let count = self.u32("the number of registers")?;
                self.punct('>', "`>`")?;
                // Counted before anything is allocated.
                self.use_registers(count as usize)?;
                for i in 0..count {
                    self.register(scope, &name, format!("{}{i}", name.text), ty)?;
                }
            } else {
                self.use_registers(1)?;
                self.register(scope, &name, name.text.to_owned(), ty)?;
            }
            if !self.eat_punct(',')? {
                break;
            }
        }
        self.punct(';', "`,` or `;`")
    }

    fn use_registers(&mut self, count: usize) -> Result<()> {
        self.registers = self.registers.saturating_add(count);
        if self.registers > self.limits.registers {
            return Err(self.too_much("registers", self.limits.registers));
        }
        Ok(())
    }

    fn register(&mut self, scope: &mut Scope<'_>, token: &Token<'_>, name: String, ty: Type) -> Result<()> {
        let index = scope.kernel.regs.len() as u32;
        scope.declare(token, name.clone(), Name::Reg(index))?;
        scope.kernel.regs.push(RegDecl { name, ty });
        Ok(())
    }

    /// `.align 16 .b8 name[bytes];`
    fn shared(&mut self, scope: &mut Scope<'_>) -> Result<()> {
        self.directive(".align", "`.align`")?;
        let align = self.u32("an alignment in bytes")?;
        self.directive(".b8", "`.b8`: shared arrays are declared in bytes")?;
        let name = self.name("the name of the array")?;
        self.punct('[', "`[` and the size in bytes")?;
        let bytes = self.u32("a size in bytes")?;
        self.punct(']', "`]`")?;
        let index = scope.kernel.shared.len();
        if index == self.limits.variables {
            return Err(self.too_much("shared arrays", self.limits.variables));
        }
        scope.declare(&name, name.text.to_owned(), Name::Shared(index as u32))?;
        scope.kernel.shared.push(SharedVar { name: name.text.to_owned(), align, bytes });
        self.punct(';', "`;`")
    }

    /// The register named by the current token.
    pub(super) fn reg(&mut self, scope: &Scope<'_>) -> Result<Reg> {
        let expected = "a register";
        let token = self.name(expected)?;
        match scope.names.get(token.text) {
            Some(Name::Reg(index)) => Ok(Reg(*index)),
            Some(_) => Err(ParseError::at(&token, ParseErrorKind::WrongKind { expected })),
            None => Err(ParseError::at(&token, ParseErrorKind::Undeclared)),
        }
    }
}
