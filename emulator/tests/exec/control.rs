//! Control flow: guards, branches, divergence and reconvergence.

use crate::device::{Device, all_options, compile};
use emulator::exec::Arg;
use ptx::builder::KernelBuilder;

#[test]
fn a_guarded_element_wise_kernel_writes_its_elements_and_no_others() {
    let mut k = KernelBuilder::new("affine");
    let (x, y, n) = (k.param_ptr("x"), k.param_ptr("y"), k.param_u32("n"));
    let (cta, ntid, tid) = (k.ctaid_x(), k.ntid_x(), k.tid_x());
    let i = k.mad_lo_u32(cta, ntid, tid);
    let inside = k.setp_lt_u32(i, n);
    k.if_(inside, |k| {
        let from = k.mad_wide_u32(i, 4, x);
        let to = k.mad_wide_u32(i, 4, y);
        let v: ptx::builder::R32 = k.ld_global(from, 0);
        let v = k.mad_lo_u32(v, 3, 7);
        k.st_global(to, 0, v);
    });
    let program = compile(k.finish());
    for options in all_options() {
        let mut device = Device { options, ..Device::new() };
        let x: Vec<u32> = (0..1000).collect();
        let (px, py) = (device.upload(&x), device.zeros(1024));
        let stats = device.launch(&program, 11, 96, &[px.into(), py.into(), Arg::U32(1000)]).unwrap();
        assert_eq!(stats.blocks, 11);
        let got = device.download(py, 1024);
        for (i, got) in got.into_iter().enumerate() {
            assert_eq!(got, if i < 1000 { 3 * i as u32 + 7 } else { 0 });
        }
    }
}
