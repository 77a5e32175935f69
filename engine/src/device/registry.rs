//! What every device does with a kernel text before anything else.

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::kernels::KernelText;

/// A kernel text that has passed the parser and the lint.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Its syntax tree; exactly one kernel, of the name stated.
    pub module: ptx::ast::Module,
    /// SHA-256 of the text: the kernel's name in records.
    pub sha256: [u8; 32],
}

/// Parses and lints a kernel, and names it.
///
/// # Errors
/// [`Error::KernelParse`] with the place, [`Error::KernelLint`] with every finding.
pub fn prepare(kernel: &KernelText) -> Result<Prepared> {
    prepare_with(kernel, &ptx::LintOptions::default())
}

/// [`prepare`] for a probe: flushing and every special function are allowed, since finding out what they do is its purpose.
///
/// # Errors
/// As [`prepare`].
pub fn prepare_probe(kernel: &KernelText) -> Result<Prepared> {
    prepare_with(kernel, &ptx::LintOptions { allow_ftz: true, allow_any_approx: true })
}

fn prepare_with(kernel: &KernelText, rules: &ptx::LintOptions) -> Result<Prepared> {
    let module = ptx::parse(&kernel.ptx).map_err(|e| Error::KernelParse {
        kernel: kernel.name.clone(),
        line: e.line,
        column: e.column,
        detail: e.to_string(),
    })?;
    let findings = ptx::lint_with(&module, rules);
    let errors: Vec<String> =
        findings.iter().filter(|f| f.severity == ptx::Severity::Error).map(ToString::to_string).collect();
    if !errors.is_empty() {
        let findings = errors.join("; ");
        return Err(Error::KernelLint { kernel: kernel.name.clone(), findings });
    }
    match module.kernels.as_slice() {
        [one] if one.name == kernel.name => {}
        kernels => {
            let names: Vec<&str> = kernels.iter().map(|k| k.name.as_str()).collect();
            let findings = format!("the text must hold this kernel alone; it holds [{}]", names.join(", "));
            return Err(Error::KernelLint { kernel: kernel.name.clone(), findings });
        }
    }
    Ok(Prepared { module, sha256: Sha256::digest(&kernel.ptx).into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::AddSpec;

    fn text(edit: impl Fn(&str) -> String) -> KernelText {
        let mut text = AddSpec { width: 32 }.build();
        let edited = edit(&text.ptx);
        assert_ne!(edited, text.ptx, "the edit found nothing to change");
        text.ptx = edited;
        text
    }

    #[test]
    fn a_kernel_is_named_by_its_text() {
        let a = prepare(&AddSpec { width: 32 }.build()).unwrap();
        let b = prepare(&AddSpec { width: 48 }.build()).unwrap();
        assert_eq!(a.sha256, prepare(&AddSpec { width: 32 }.build()).unwrap().sha256);
        assert_ne!(a.sha256, b.sha256);
    }

    #[test]
    fn only_a_probe_may_flush() {
        let flushing = text(|t| t.replace("add.rn.f32", "add.rn.ftz.f32"));
        assert!(matches!(prepare(&flushing), Err(Error::KernelLint { .. })));
        assert!(prepare_probe(&flushing).is_ok());
        let unrounded = text(|t| t.replace("add.rn.f32", "add.f32"));
        assert!(matches!(prepare_probe(&unrounded), Err(Error::KernelLint { .. })));
    }

    #[test]
    fn kernels_that_break_the_rules_are_refused() {
        let unrounded = prepare(&text(|t| t.replace("add.rn.f32", "add.f32"))).unwrap_err();
        assert!(matches!(unrounded, Error::KernelLint { .. }), "{unrounded}");
        let broken = prepare(&text(|t| t.replace("add.rn.f32", "add.rn.f99"))).unwrap_err();
        assert!(matches!(broken, Error::KernelParse { line, .. } if line > 1), "{broken}");
        let renamed = prepare(&text(|t| t.replace(".entry add", ".entry sub"))).unwrap_err();
        assert!(matches!(renamed, Error::KernelLint { .. }), "{renamed}");
        let two = prepare(&text(|t| {
            let body = t.find(".visible").map_or("", |at| &t[at..]);
            format!("{t}{}", body.replace(".entry add", ".entry add2"))
        }));
        assert!(matches!(two, Err(Error::KernelLint { .. })), "{two:?}");
    }
}
