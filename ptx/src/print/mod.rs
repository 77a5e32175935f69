//! Prints a module as PTX text that `ptxas` accepts and [`crate::parse()`] reads back unchanged.
//!
//! The text is canonical: one module has one text, whose digest names the kernel.

mod op;

use std::fmt::{self, Write};

use crate::ast::{Addr, Base, Inst, Kernel, Module, Operand, Reg, RegDecl, Stmt};
use crate::names::is_identifier;

/// The text of a module.
///
/// For a module that [`crate::validate()`] accepts, `parse(&print(module)) == module`. An index
/// outside a kernel's tables, which no valid module holds, prints as text that does not parse.
#[must_use]
pub fn print(module: &Module) -> String {
    Text(module).to_string()
}

/// The text of one instruction of `kernel`, guard included, as it stands in [`print()`]'s output: for messages.
#[must_use]
pub fn print_inst(kernel: &Kernel, inst: &Inst) -> String {
    struct One<'k>(&'k Kernel, &'k Inst);
    impl fmt::Display for One<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            Printer { kernel: self.0, f }.inst(self.1)
        }
    }
    One(kernel, inst).to_string().trim().to_owned()
}

struct Text<'m>(&'m Module);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let module = self.0;
        writeln!(f, ".version {}.{}", module.version.0, module.version.1)?;
        writeln!(f, ".target sm_{}", module.target)?;
        writeln!(f, ".address_size 64")?;
        for kernel in &module.kernels {
            writeln!(f)?;
            Printer { kernel, f }.kernel()?;
        }
        Ok(())
    }
}

struct Printer<'k, 'f, 'b> {
    kernel: &'k Kernel,
    f: &'f mut fmt::Formatter<'b>,
}

impl Printer<'_, '_, '_> {
    fn kernel(&mut self) -> fmt::Result {
        let k = self.kernel;
        write!(self.f, ".visible .entry {}(", k.name)?;
        for (i, p) in k.params.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(self.f, "{comma}\n\t.param .{} {}", p.ty, p.name)?;
        }
        writeln!(self.f, "{})", if k.params.is_empty() { "" } else { "\n" })?;
        if let Some([x, y, z]) = k.max_ntid {
            writeln!(self.f, ".maxntid {x}, {y}, {z}")?;
        }
        writeln!(self.f, "{{")?;
        self.registers()?;
        for s in &k.shared {
            writeln!(self.f, "\t.shared .align {} .b8 {}[{}];", s.align, s.name, s.bytes)?;
        }
        for stmt in &k.body {
            match stmt {
                Stmt::Label(l) => {
                    self.label(l.0)?;
                    writeln!(self.f, ":")?;
                }
                Stmt::Inst(inst) => self.inst(inst)?,
            }
        }
        writeln!(self.f, "}}")
    }

    /// Declarations in table order: `%r0 .. %r9` in sequence become `%r<10>`, other names are listed.
    fn registers(&mut self) -> fmt::Result {
        let mut rest = self.kernel.regs.as_slice();
        while let Some(first) = rest.first() {
            let n = range_len(rest);
            if n > 0 {
                let prefix = range_prefix(&first.name).unwrap_or_default();
                writeln!(self.f, "\t.reg .{} {prefix}<{n}>;", first.ty)?;
                rest = &rest[n..];
                continue;
            }
            write!(self.f, "\t.reg .{} {}", first.ty, first.name)?;
            rest = &rest[1..];
            let mut on_line = 1;
            while let Some(next) = rest.first() {
                if next.ty != first.ty || on_line == 8 || range_len(rest) > 0 {
                    break;
                }
                write!(self.f, ", {}", next.name)?;
                rest = &rest[1..];
                on_line += 1;
            }
            writeln!(self.f, ";")?;
        }
        Ok(())
    }

    fn label(&mut self, index: u32) -> fmt::Result {
        match self.kernel.labels.get(index as usize) {
            Some(name) => self.f.write_str(name),
            None => write!(self.f, "<no label {index}>"),
        }
    }

    fn reg(&mut self, reg: Reg) -> fmt::Result {
        match self.kernel.regs.get(reg.0 as usize) {
            Some(decl) => self.f.write_str(&decl.name),
            None => write!(self.f, "<no register {}>", reg.0),
        }
    }

    fn shared(&mut self, index: u32) -> fmt::Result {
        match self.kernel.shared.get(index as usize) {
            Some(var) => self.f.write_str(&var.name),
            None => write!(self.f, "<no shared array {index}>"),
        }
    }

    fn inst(&mut self, inst: &Inst) -> fmt::Result {
        self.f.write_char('\t')?;
        if let Some(guard) = inst.guard {
            self.f.write_str(if guard.negate { "@!" } else { "@" })?;
            self.reg(guard.reg)?;
            self.f.write_char(' ')?;
        }
        self.op(&inst.op)?;
        self.f.write_str(";\n")
    }

    /// ` a, b, c`
    fn args(&mut self, args: &[Arg<'_>]) -> fmt::Result {
        for (i, arg) in args.iter().enumerate() {
            self.f.write_str(if i == 0 { " " } else { ", " })?;
            match *arg {
                Arg::Reg(r) => self.reg(r)?,
                Arg::Operand(o) => self.operand(o)?,
                Arg::Addr(a) => self.addr(a)?,
                Arg::Regs(v) => self.list(v, |s, r| s.reg(*r))?,
                Arg::Operands(v) => self.list(v, |s, o| s.operand(*o))?,
                Arg::Number(n) => write!(self.f, "{n}")?,
            }
        }
        Ok(())
    }

    fn list<T>(&mut self, v: &[T], each: impl Fn(&mut Self, &T) -> fmt::Result) -> fmt::Result {
        self.f.write_char('{')?;
        for (i, x) in v.iter().enumerate() {
            if i > 0 {
                self.f.write_str(", ")?;
            }
            each(self, x)?;
        }
        self.f.write_char('}')
    }

    fn operand(&mut self, operand: Operand) -> fmt::Result {
        match operand {
            Operand::Reg(r) => self.reg(r),
            Operand::Int(v) => write!(self.f, "{v}"),
            Operand::F32(bits) => write!(self.f, "0f{bits:08X}"),
            Operand::F64(bits) => write!(self.f, "0d{bits:016X}"),
            Operand::Special(s) => self.f.write_str(s.name()),
            Operand::Shared(index) => self.shared(index),
        }
    }

    fn addr(&mut self, addr: Addr) -> fmt::Result {
        self.f.write_char('[')?;
        match addr.base {
            Base::Reg(r) => self.reg(r)?,
            Base::Shared(index) => self.shared(index)?,
            Base::Param(index) => match self.kernel.params.get(index as usize) {
                Some(p) => self.f.write_str(&p.name)?,
                None => write!(self.f, "<no parameter {index}>")?,
            },
        }
        if addr.offset != 0 {
            // `ptxas` reads `+-4` but not `-4` here.
            write!(self.f, "+{}", addr.offset)?;
        }
        self.f.write_char(']')
    }
}

/// One printed argument.
#[derive(Clone, Copy)]
enum Arg<'a> {
    Reg(Reg),
    Operand(Operand),
    Addr(Addr),
    Regs(&'a [Reg]),
    Operands(&'a [Operand]),
    Number(u32),
}

/// `%r` of `%r0`, when `%r<n>` can declare it.
fn range_prefix(name: &str) -> Option<&str> {
    name.strip_suffix('0').filter(|p| is_identifier(p) && !p.ends_with(|c: char| c.is_ascii_digit()))
}

/// How many leading registers one range declares; zero when the first does not start a range.
fn range_len(regs: &[RegDecl]) -> usize {
    let Some(first) = regs.first() else { return 0 };
    let Some(prefix) = range_prefix(&first.name) else {
        return 0;
    };
    regs.iter()
        .enumerate()
        .take_while(|(i, r)| {
            r.ty == first.ty && r.name.strip_prefix(prefix).is_some_and(|suffix| suffix == i.to_string())
        })
        .count()
}
