//! Against Hugging Face transformers in f32: `golden.json` of both models.

mod common;

use std::sync::Arc;

use common::{Golden, engine, kjv, prefill, stories};
use engine::batch::{BatchOptions, NoLog, Request, generate};
use engine::step::Observe;
use engine::{Mode, Model};

/// Teacher-forced: the argmax after each golden prefix is the next golden token for at least 98 % of them, and the first step's
/// top five logits are within 2 %.
fn agrees(model: &Arc<Model>, golden: &Golden) {
    let tokens: Vec<u32> = golden.prompt.iter().chain(&golden.greedy).copied().collect();
    for mode in Mode::ALL {
        let out = prefill(&mut engine(model, mode), &tokens, Observe::STATE);
        let first = golden.prompt.len() - 1;
        let hits =
            golden.greedy.iter().zip(&out.rows[first..]).filter(|(id, row)| row.top2.unwrap().first == **id).count();
        assert!(hits * 100 >= golden.greedy.len() * 98, "{mode:?}: {hits} of {} tokens agree", golden.greedy.len());
        let logits = out.rows[first].logits.as_ref().unwrap();
        for (id, want) in golden.top5_ids.iter().zip(&golden.top5_logits) {
            let got = f64::from(f32::from_bits(logits[*id as usize]));
            assert!((got - want).abs() <= 0.02 * want.abs(), "{mode:?}: logit of {id} is {got}, golden {want}");
        }
    }
}

#[test]
fn kjv_agrees_with_transformers() {
    agrees(&kjv(), &Golden::kjv());
}

#[test]
fn stories_agrees_with_transformers() {
    let (Some(model), Some(golden)) = (stories(), Golden::stories()) else { return };
    agrees(&model, &golden);
}

#[test]
fn once_upon_a_time_there_was_lily() {
    let Some(model) = stories() else { return };
    let prompt = model.tokenizer.encode("Once upon a time").unwrap();
    let request = Request { stop: vec![2], ..Request::new(prompt.clone(), 40) };
    let mut engine = engine(&model, Mode::Invariant);
    let out = generate(&mut engine, &[request], &BatchOptions::default(), &mut NoLog).unwrap();
    let ids: Vec<u32> = prompt.iter().chain(&out[0].output).copied().collect();
    let text = model.tokenizer.decode(&ids).unwrap();
    let known = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park.";
    assert!(text.starts_with(known), "{text}");
}
