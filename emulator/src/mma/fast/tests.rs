use crate::format::Elem;
use crate::mma::*;
use crate::profile::Profile;
use crate::simd::Level;

#[test]
fn quick() {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 32) as u32
    };
    for level in Level::available() {
        for (prof, shape, elem) in [
            ("sm_90", M16N8K16, Elem::Bf16),
            ("sm_80", M16N8K16, Elem::Bf16),
            ("sm_80", M16N8K8, Elem::Bf16),
            ("sm_75", M16N8K8, Elem::F16),
            ("sm_90", M16N8K16, Elem::F16),
            ("sm_80", M16N8K16, Elem::F16),
            ("sm_80", M16N8K8, Elem::Tf32),
            ("sm_90", M16N8K8, Elem::Tf32),
            ("sm_80", M16N8K4, Elem::Tf32),
        ] {
            let m = WarpMma::new(Profile::by_name(prof).unwrap(), shape, Types::new(elem, Elem::F32), level).unwrap();
            assert!(m.fast.is_some());
            for i in 0..300 {
                let mut reg = |f: bool| -> [u32; 32] {
                    std::array::from_fn(|_| {
                        let r = next();
                        if i % 3 == 0 {
                            r
                        } else if f {
                            (r & 0x83ff_ffff) | 0x3c00_0000
                        } else if elem == Elem::F16 {
                            (r & 0x8fff_8fff) | 0x3000_3000
                        } else if i % 3 == 1 {
                            (r & 0x83ff_83ff) | 0x3c00_3c00
                        } else {
                            r & 0xbfff_bfff | 0x3000_3000
                        }
                    })
                };
                let a: Vec<_> = (0..m.layout().a_registers()).map(|_| reg(false)).collect();
                let b: Vec<_> = (0..m.layout().b_registers()).map(|_| reg(false)).collect();
                let c: Vec<_> = (0..4).map(|_| reg(true)).collect();
                let (a, b, c): (Vec<_>, Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect(), c.iter().collect());
                let mut d1 = [[0; 32]; 4];
                let mut d2 = d1;
                m.run(&a, &b, &c, &mut d1);
                m.run_reference(&a, &b, &c, &mut d2);
                assert_eq!(d1, d2, "{level:?} {prof} {shape} {elem} {i}");
            }
        }
    }
}
