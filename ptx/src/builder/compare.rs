//! Comparisons and selection.

use super::{F32, KernelBuilder, P, R16, R32, R64, Register, Source};
use crate::ast::{Cmp, Op, Type};

macro_rules! compare {
    ($($name:ident: $cmp:ident $ty:ident, $r:ty, $text:literal;)+) => {
        impl KernelBuilder {
            $(
                #[doc = concat!("`", $text, "`.")]
                pub fn $name(&mut self, a: impl Source<$r>, b: impl Source<$r>) -> P {
                    let d: P = self.fresh();
                    self.emit(Op::Setp {
                        cmp: Cmp::$cmp,
                        ty: Type::$ty,
                        ftz: false,
                        d: d.reg(),
                        a: a.operand(),
                        b: b.operand(),
                    });
                    d
                }
            )+
        }
    };
}

compare! {
    setp_eq_u32: Eq U32, R32, "setp.eq.u32";
    setp_ne_u32: Ne U32, R32, "setp.ne.u32";
    setp_lt_u32: Lt U32, R32, "setp.lt.u32";
    setp_le_u32: Le U32, R32, "setp.le.u32";
    setp_gt_u32: Gt U32, R32, "setp.gt.u32";
    setp_ge_u32: Ge U32, R32, "setp.ge.u32";
    setp_lt_s32: Lt S32, R32, "setp.lt.s32";
    setp_le_s32: Le S32, R32, "setp.le.s32";
    setp_gt_s32: Gt S32, R32, "setp.gt.s32";
    setp_ge_s32: Ge S32, R32, "setp.ge.s32";
    setp_eq_u64: Eq U64, R64, "setp.eq.u64";
    setp_ne_u64: Ne U64, R64, "setp.ne.u64";
    setp_lt_u64: Lt U64, R64, "setp.lt.u64";
    setp_ge_u64: Ge U64, R64, "setp.ge.u64";
    setp_eq_f32: Eq F32, F32, "setp.eq.f32";
    setp_ne_f32: Ne F32, F32, "setp.ne.f32";
    setp_lt_f32: Lt F32, F32, "setp.lt.f32";
    setp_le_f32: Le F32, F32, "setp.le.f32";
    setp_gt_f32: Gt F32, F32, "setp.gt.f32";
    setp_ge_f32: Ge F32, F32, "setp.ge.f32";
    setp_neu_f32: Neu F32, F32, "setp.neu.f32";
    setp_gtu_f32: Gtu F32, F32, "setp.gtu.f32";
    setp_num_f32: Num F32, F32, "setp.num.f32";
    setp_nan_f32: Nan F32, F32, "setp.nan.f32";
}

macro_rules! select {
    ($($name:ident, $into:ident: $ty:ident, $r:ty, $text:literal;)+) => {
        impl KernelBuilder {
            $(
                #[doc = concat!("`", $text, "`: `a` where `p`, else `b`.")]
                pub fn $name(&mut self, a: impl Source<$r>, b: impl Source<$r>, p: P) -> $r {
                    let d = self.fresh();
                    self.$into(d, a, b, p);
                    d
                }

                #[doc = concat!("`", $text, "` into `d`: `a` where `p`, else `b`.")]
                pub fn $into(&mut self, d: $r, a: impl Source<$r>, b: impl Source<$r>, p: P) {
                    self.emit(Op::Selp {
                        ty: Type::$ty,
                        d: d.reg(),
                        a: a.operand(),
                        b: b.operand(),
                        p: p.reg(),
                    });
                }
            )+
        }
    };
}

select! {
    selp_b16, selp_b16_into: B16, R16, "selp.b16";
    selp_b32, selp_b32_into: B32, R32, "selp.b32";
    selp_b64, selp_b64_into: B64, R64, "selp.b64";
    selp_f32, selp_f32_into: F32, F32, "selp.f32";
}
