//! A plan flattened into the arrays that kernels read.

use crate::error::Result;
use crate::kernels::{PAGE, Q_TILE, TILE_WORDS};
use crate::kv::{KvTables, Slot};
use crate::step::{Group, Row};

/// Arrays of one step, all `u32`, in one allocation.
pub(super) struct Layout {
    /// Rows of the step, still without results.
    pub rows: Vec<Row>,
    /// Row indices that get logits.
    pub logit_rows: Vec<u32>,
    /// Attention tiles, and rows of the largest.
    pub tile_count: u32,
    pub tile_rows: u32,
    /// Words of all sections; see [`Section`].
    words: Vec<u32>,
    starts: [usize; Section::COUNT],
}

/// A part of the step's input array.
#[derive(Clone, Copy)]
pub(super) enum Section {
    /// Token ids, `(rows)`.
    Ids,
    /// Positions, `(rows)`.
    Positions,
    /// Cache columns, `(rows)`.
    Columns,
    /// Rows that get logits, `(logit rows)`.
    LogitRows,
    /// `(tiles, TILE_WORDS)`: slot, first row, rows, position of the first row.
    Tiles,
    /// `(slots, max_pages)`.
    BlockTable,
}

impl Section {
    const COUNT: usize = 6;
}

/// Sections start at multiples of this many words, so that a kernel may load 16 bytes at a time.
const ALIGN: usize = 4;

/// Rows without a request that fill a step up to a constant number.
#[derive(Clone, Copy)]
pub(super) struct Padding {
    /// How many.
    pub rows: u32,
    /// A page that no request has.
    pub page: u32,
}

impl Layout {
    /// Lays out groups whose positions the cache already has room for. Padding comes last: rows of token 0 with logits, each at its own place in
    /// the page, the positions of one request beyond the slots.
    pub fn new(groups: &[Group], kv: &KvTables, padding: Padding) -> Result<Self> {
        let (mut rows, mut logit_rows) = (Vec::new(), Vec::new());
        let (mut ids, mut positions, mut columns, mut tiles) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (index, group) in groups.iter().enumerate() {
            let (first, count) = (rows.len() as u32, group.tokens.len() as u32);
            for from in (0..count).step_by(Q_TILE as usize) {
                tiles.extend([group.slot.0, first + from, Q_TILE.min(count - from), group.start + from]);
            }
            logit_rows.extend(first + count - group.logits.count(count)..first + count);
            for (position, token) in (group.start..).zip(&group.tokens) {
                ids.push(*token);
                positions.push(position);
                columns.push(kv.column(group.slot, position)?);
                rows.push(Row::new(index, group.slot, position, *token));
            }
        }
        let mut block_table = kv.block_table();
        if padding.rows > 0 {
            let (first, slot) = (rows.len() as u32, kv.slot_count());
            tiles.extend([slot, first, padding.rows, 0]);
            logit_rows.extend(first..first + padding.rows);
            for position in 0..padding.rows {
                ids.push(0);
                positions.push(position);
                columns.push(padding.page * PAGE + position);
                rows.push(Row::new(groups.len(), Slot(slot), position, 0));
            }
            let at = block_table.len();
            block_table.resize(at + kv.max_pages() as usize, 0);
            block_table[at] = padding.page;
        }
        let tile_count = tiles.len() as u32 / TILE_WORDS;
        let lengths = groups.iter().map(|g| g.tokens.len() as u32).chain([padding.rows]);
        let tile_rows = lengths.map(|n| Q_TILE.min(n)).max().unwrap_or(0);
        let mut words = Vec::new();
        let mut starts = [0; Section::COUNT];
        let sections = [ids, positions, columns, logit_rows.clone(), tiles, block_table];
        for (start, section) in starts.iter_mut().zip(sections) {
            *start = words.len();
            words.extend(section);
            words.resize(words.len().next_multiple_of(ALIGN), 0);
        }
        Ok(Self { rows, logit_rows, tile_count, tile_rows, words, starts })
    }

    /// Number of rows.
    pub fn row_count(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Byte offset of a section.
    pub fn offset(&self, section: Section) -> u64 {
        self.starts[section as usize] as u64 * 4
    }

    /// Words of a section up to the next one, padding included.
    pub fn section(&self, section: Section) -> &[u32] {
        let at = section as usize;
        let end = self.starts.get(at + 1).copied().unwrap_or(self.words.len());
        &self.words[self.starts[at]..end]
    }

    /// All sections as the device takes them.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Logits;

    #[test]
    fn a_mixed_step_is_laid_out() {
        let mut kv = KvTables::new(8, 2, 64);
        let (a, b) = (kv.open().unwrap(), kv.open().unwrap());
        kv.extend(a, 17).unwrap();
        kv.extend(b, 18).unwrap();
        let groups = [
            Group { slot: b, start: 0, tokens: (0..18).collect(), logits: Logits::None },
            Group { slot: a, start: 16, tokens: vec![7], logits: Logits::Last },
        ];
        let l = Layout::new(&groups, &kv, Padding { rows: 0, page: 8 }).unwrap();
        assert_eq!((l.row_count(), l.tile_count, l.tile_rows, l.logit_rows.as_slice()), (19, 3, 16, &[18][..]));
        // b's rows in tiles of 16 and 2, then a's one row at position 16.
        assert_eq!(l.section(Section::Tiles), [1, 0, 16, 0, 1, 16, 2, 16, 0, 18, 1, 16]);
        assert_eq!(l.section(Section::Positions)[16..19], [16, 17, 16]);
        // a holds pages 0 and 1, b pages 2 and 3.
        assert_eq!(l.section(Section::Columns)[15..19], [47, 48, 49, 16]);
        assert_eq!(l.section(Section::BlockTable), [0, 1, 0, 0, 2, 3, 0, 0]);
        assert_eq!(l.offset(Section::Positions), 80);
        assert_eq!(l.to_bytes().len(), l.words.len() * 4);
        assert_eq!((l.rows[18].group, l.rows[18].position, l.rows[18].token), (1, 16, 7));
    }

    #[test]
    fn padding_lies_in_a_page_of_its_own() {
        let mut kv = KvTables::new(8, 2, 64);
        let a = kv.open().unwrap();
        kv.extend(a, 17).unwrap();
        let groups = [Group { slot: a, start: 16, tokens: vec![7], logits: Logits::Last }];
        let l = Layout::new(&groups, &kv, Padding { rows: 3, page: 8 }).unwrap();
        assert_eq!((l.row_count(), l.tile_count, l.logit_rows.as_slice()), (4, 2, &[0, 1, 2, 3][..]));
        assert_eq!(l.section(Section::Tiles), [0, 0, 1, 16, 2, 1, 3, 0]);
        assert_eq!(l.section(Section::Columns), [16, 128, 129, 130]);
        assert_eq!(l.section(Section::BlockTable), [0, 1, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0]);
    }
}
