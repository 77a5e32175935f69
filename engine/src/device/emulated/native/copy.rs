//! [`EmbedSpec`] and [`GatherSpec`]: rows by number.

use super::rows::{each_run, span, views};
use super::{Call, Declined, Native, countable};
use crate::device::Arg;
use crate::kernels::{EmbedSpec, GatherSpec};

/// One text of a copy of rows.
pub(super) struct Copy {
    width: u32,
    grid: Box<dyn Fn(u32) -> [u32; 3] + Send + Sync>,
}

impl Copy {
    pub fn embed(spec: &EmbedSpec) -> Self {
        let spec = spec.clone();
        Self { width: spec.hidden_pad, grid: Box::new(move |rows| spec.grid(rows)) }
    }

    pub fn gather(spec: &GatherSpec) -> Self {
        let spec = spec.clone();
        Self { width: spec.width, grid: Box::new(move |rows| spec.grid(rows)) }
    }
}

impl Native for Copy {
    fn launch(&self, call: &mut Call<'_>) -> Result<(), Declined> {
        let &[Arg::Ptr(index), Arg::Ptr(from), Arg::Ptr(to), Arg::U32(count)] = call.args else { return Err(Declined) };
        countable(count, self.width)?;
        call.runs_on((self.grid)(count))?;
        let words = self.width as usize / 2;
        let row_bytes = 4 * words as u64;
        let index = span(index, count, 4);
        let numbers = call.memory.words(index.0, index.1).ok_or(Declined)?;
        let rows: Vec<u32> = (0..count as usize).map(|i| numbers.get(i)).collect();
        let most = rows.iter().max().map_or(0, |&most| u64::from(most) + 1);
        let source = (from, most.checked_mul(row_bytes).ok_or(Declined)?);
        let ([_, from], [to]) = views(call, [index, source], [span(to, count, row_bytes)], false)?;
        each_run(call, (rows.len(), words), |run| {
            let mut line = vec![0; words];
            for row in run {
                from.copy(rows[row] as usize * words, &mut line);
                to.put(row * words, &line);
            }
        });
        Ok(())
    }
}
