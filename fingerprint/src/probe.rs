//! Prompts, made anew from a seed: a provider cannot special-case a public list.

use crate::api::Prompt;
use crate::stats::Random;

/// A greedy probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its name in traces.
    pub id: String,
    /// What is continued.
    pub prompt: Prompt,
    /// Most tokens.
    pub tokens: u32,
}

/// Words that any endpoint may be asked to continue, one token each in most vocabularies.
const WORDS: &[&str] = &[
    "the", "water", "stone", "river", "hand", "light", "seven", "green", "house", "wind", "under", "bread", "north",
    "song", "paper", "table", "glass", "morning", "number", "field", "iron", "voice", "small", "garden", "letter",
    "salt", "cloud", "winter", "silver", "road", "king", "ship", "market", "night", "book", "fire", "tree", "mountain",
    "child", "music", "horse", "corner", "summer", "earth", "island", "bridge", "window", "yellow", "forest", "city",
    "story", "quiet", "thread", "metal", "rain", "door", "star", "valley", "honey", "circle", "line", "point", "order",
    "measure", "weight", "answer", "question", "east", "south", "west", "first", "second", "third", "fourth", "above",
    "below", "between", "after", "before", "during", "without", "within", "across", "behind", "together", "apart",
    "always", "never", "often", "again", "about", "people", "place", "reason", "method", "result", "figure", "detail",
    "surface", "engine", "signal", "copper", "marble", "lantern", "harbor", "feather", "meadow", "orchard", "village",
    "castle", "autumn", "journey", "shadow", "mirror", "candle", "basket", "needle", "hammer", "anchor", "ladder",
    "saddle", "kettle", "blanket", "pillow", "curtain", "carpet",
];

/// Words of a prompt.
const LENGTH: usize = 24;

/// The greedy probes of a seed: half sequences of words without sense (high entropy), half a phrase repeated (attention matters).
pub fn greedy(seed: u64, count: usize, tokens: u32) -> Vec<Probe> {
    let one = |i: usize| {
        let id = format!("p5/{i:03}");
        let mut random = Random::named(seed, &id);
        let text = if i.is_multiple_of(2) { words(&mut random, LENGTH) } else { phrase(&mut random, LENGTH) };
        Probe { id, prompt: Prompt::Text(text), tokens }
    };
    (0..count).map(one).collect()
}

/// Words without sense.
pub fn words(random: &mut Random, count: usize) -> String {
    let all: Vec<&str> = (0..count).map(|_| WORDS[random.below(WORDS.len())]).collect();
    all.join(" ")
}

fn phrase(random: &mut Random, count: usize) -> String {
    let one = words(random, 3 + random.clone().below(4));
    let times = count.div_ceil(one.split(' ').count());
    vec![one; times].join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_its_probes_again_and_another_makes_others() {
        let probes = greedy(1, 8, 4);
        assert_eq!(probes, greedy(1, 8, 4));
        assert!(probes.iter().zip(greedy(2, 8, 4)).all(|(a, b)| a.prompt != b.prompt));
        assert_eq!(probes[..4], greedy(1, 4, 4), "fewer are the first of more");
        let repeated = probes[1].prompt.text().unwrap();
        let first: Vec<&str> = repeated.split(' ').take(3).collect();
        assert!(repeated.matches(&first.join(" ")).count() >= 3, "{repeated}");
    }
}
