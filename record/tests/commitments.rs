//! Commitments against values computed by another implementation from the documents alone.
//!
//! `PYTHON` values: Python 3 `hashlib`, written from docs/spec/step-commitments.md and docs/spec/tensor-digest.md.

use record::commit::{self, RowComponents, RowEvidence, RowId};
use record::digest::of_token_ids;
use record::inference::{Dispatch, Event, Execution, OpDispatch, RowKind, Rows, Schedule};
use record::merkle::{self, Tree};
use record::{Digest, Error, PublicKey, TensorView};

fn hex(digest: &Digest) -> String {
    digest.to_hex()
}

/// The example of the document: one layer, one KV head, head_dim 2, hidden 2, vocab 3.
fn leaves() -> (Digest, Digest, Digest) {
    let column = [1, 2];
    let hidden = [2];
    let row0 = RowEvidence {
        k: vec![TensorView::bf16(&column, &[0x3f80, 0x4000])],
        v: vec![TensorView::bf16(&column, &[0xbf80, 0x0000])],
        boundaries: vec![TensorView::bf16(&hidden, &[1, 2]), TensorView::bf16(&hidden, &[3, 4])],
        ..RowEvidence::default()
    };
    let embed = TensorView::bf16(&hidden, &[5, 6]);
    let k = TensorView::bf16(&column, &[0x3f81, 0x4001]);
    let mut row1 = RowEvidence {
        logits: Some(TensorView::f32(&[3], &[0x3f80_0000, 0x4049_0fdb, 0xff80_0000])),
        k: vec![k],
        v: vec![TensorView::bf16(&column, &[0xbf81, 0x8000])],
        boundaries: vec![embed, TensorView::bf16(&hidden, &[7, 8])],
        activations: None,
    };
    let id0 = RowId { request: "a", position: 0, token: 5, chosen: None };
    let id1 = RowId { request: "a", position: 1, token: 9, chosen: Some(7) };
    let leaf0 = commit::leaf(&id0, &row0.components().unwrap());
    let leaf1 = commit::leaf(&id1, &row1.components().unwrap());
    row1.activations = Some(vec![("embed".to_owned(), embed), ("layers.0.k".to_owned(), k)]);
    let leaf1_a = commit::leaf(&id1, &row1.components().unwrap());
    (leaf0, leaf1, leaf1_a)
}

fn schedule() -> Schedule {
    Schedule {
        events: vec![Event::Admit { request: 0, cached: Vec::new() }],
        rows: vec![Rows { request: 0, start: 0, count: 2, kind: RowKind::Prefill, logits: 1, gate: None }],
        padded_rows: 2,
        execution: Execution::Eager,
        dispatch: Dispatch { ops: vec![OpDispatch { op: "qkv".to_owned(), kernels: vec![0], splits: 1 }] },
    }
}

#[test]
fn another_implementation_agrees() {
    let (leaf0, leaf1, leaf1_a) = leaves();
    assert_eq!(hex(&leaf0), "83541b806cba90419abd22628787c8902b95a7e0e84b03d68639f19d7da4f133");
    assert_eq!(hex(&leaf1), "78e217839813accb6c7e719992a007db4856ca956caa3ec8c8d1fd15a3a8cd87");
    assert_eq!(hex(&leaf1_a), "665308922d6cd84b7d1c2ccd1086608c78e96750100b0957ae6ade87a01e2b3f");
    let genesis = commit::genesis("example.org/log");
    assert_eq!(hex(&genesis), "b366ebb01b19692d5c367e8c93ba167bb2ac661647be0976492fbbadaaae00f5");
    let step = commit::seal(0, schedule(), vec![leaf0, leaf1], &genesis).unwrap();
    let digest = commit::schedule_digest(&step.schedule).unwrap();
    assert_eq!(hex(&digest), "99cadddf7b05a87cf3b55c63d4119d17aed57e0c26ea727015d351ee5f7518c3");
    assert_eq!(hex(&step.root), "d77bcfc451b97e4c20dfca50204d252910127f33d38597c3145cded3f55ce05f");
    assert_eq!(hex(&step.chain), "f6695995d8f3b51739c826d464cc267518b4dddd9494e04ca025c92875501a5c");
    let ids = of_token_ids(&[5, 9]);
    assert_eq!(hex(&ids), "bed37e11c68526249616818fcd8c4d9549e5c723e36f92f2f4458e18ae73cbc5");
}

#[test]
fn key_ids_agree() {
    // PYTHON: H("lastbit/key/v1" || 0 || the 32 bytes), here of the public key of RFC 8032 test 1.
    let bytes: [u8; 32] =
        hex::decode("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a").unwrap().try_into().unwrap();
    assert_eq!(hex(&PublicKey::from_bytes(&bytes).unwrap().id()), KEY_ID);
}

const KEY_ID: &str = "744519d6a602dc0f3831678672359bebaf3f3b0752a7193c23843b675e2791be";

#[test]
fn every_part_of_a_leaf_counts() {
    let digest = |n: u8| Digest::from_bytes([n; 32]);
    let id = RowId { request: "a", position: 1, token: 2, chosen: Some(3) };
    let parts = RowComponents {
        logits: Some(digest(1)),
        k: digest(2),
        v: digest(3),
        boundaries: digest(4),
        activations: Some(digest(5)),
    };
    let mut all = vec![commit::leaf(&id, &parts)];
    for other in [
        RowId { request: "b", ..id },
        RowId { position: 2, ..id },
        RowId { token: 3, ..id },
        RowId { chosen: Some(4), ..id },
        RowId { chosen: None, ..id },
    ] {
        all.push(commit::leaf(&other, &parts));
    }
    for other in [
        RowComponents { logits: None, ..parts.clone() },
        RowComponents { logits: Some(digest(9)), ..parts.clone() },
        RowComponents { k: digest(9), ..parts.clone() },
        RowComponents { v: digest(9), ..parts.clone() },
        RowComponents { k: parts.v, v: parts.k, ..parts.clone() },
        RowComponents { boundaries: digest(9), ..parts.clone() },
        RowComponents { activations: None, ..parts.clone() },
        RowComponents { activations: Some(digest(9)), ..parts.clone() },
        // Exchanging which optional component is present must not give the same bytes.
        RowComponents { logits: None, activations: parts.logits, ..parts.clone() },
    ] {
        all.push(commit::leaf(&id, &other));
    }
    let distinct: std::collections::HashSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());
}

#[test]
fn a_step_has_one_leaf_a_row() {
    let (leaf, _, _) = leaves();
    let before = commit::genesis("x");
    for leaves in [vec![], vec![leaf], vec![leaf; 3]] {
        assert!(matches!(commit::seal(0, schedule(), leaves, &before), Err(Error::LeafCount { rows: 2, .. })));
    }
}

/// The eight leaves and roots that Certificate Transparency implementations test themselves with.
#[test]
fn merkle_roots_are_those_of_rfc_6962() {
    let leaves = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"];
    let roots = [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ];
    let mut tree = Tree::default();
    assert_eq!(hex(&tree.root().unwrap()), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    for (leaf, root) in leaves.iter().zip(roots) {
        tree.push(&hex::decode(leaf).unwrap()).unwrap();
        assert_eq!(hex(&tree.root().unwrap()), root);
    }
    for (size, root) in (1..).zip(roots) {
        assert_eq!(hex(&tree.root_at(size).unwrap()), root);
    }
    assert!(tree.root_at(9).is_err());
}

#[test]
fn a_leaf_is_proved_and_no_other() {
    let leaves: Vec<Digest> = (0..11).map(|n| Digest::from_bytes([n; 32])).collect();
    let tree = merkle::tree(&leaves).unwrap();
    let root = tree.root().unwrap();
    for (index, leaf) in (0..).zip(&leaves) {
        let path = tree.prove(index).unwrap();
        merkle::check(&path, 11, &root, index, leaf.as_bytes()).unwrap();
        assert!(merkle::check(&path, 11, &root, (index + 1) % 11, leaf.as_bytes()).is_err());
        assert!(merkle::check(&path, 11, leaf, index, leaf.as_bytes()).is_err());
        assert!(merkle::check(&path[1..], 11, &root, index, leaf.as_bytes()).is_err());
        assert!(merkle::check(&path, 11, &root, index, root.as_bytes()).is_err());
    }
    assert!(tree.prove(11).is_err());
}
