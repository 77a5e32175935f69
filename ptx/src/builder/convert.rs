//! Conversions, packing, and the bf16 idioms built from them.

use super::{F32, KernelBuilder, R16, R32, R64, Register, Source};
use crate::ast::{Op, Operand, Round, Type};

macro_rules! convert {
    ($($name:ident: $round:expr, $to:ident $from:ident, $a:ty => $d:ty, $text:literal;)+) => {
        impl KernelBuilder {
            $(
                #[doc = concat!("`", $text, "`.")]
                pub fn $name(&mut self, a: impl Source<$a>) -> $d {
                    let d: $d = self.fresh();
                    self.emit(Op::Cvt {
                        round: $round,
                        ftz: false,
                        sat: false,
                        satfinite: false,
                        relu: false,
                        to: Type::$to,
                        from: Type::$from,
                        d: d.reg(),
                        a: a.operand(),
                    });
                    d
                }
            )+
        }
    };
}

convert! {
    cvt_u32_u16: None, U32 U16, R16 => R32, "cvt.u32.u16";
    cvt_s32_s16: None, S32 S16, R16 => R32, "cvt.s32.s16";
    cvt_u16_u32: None, U16 U32, R32 => R16, "cvt.u16.u32";
    cvt_u64_u32: None, U64 U32, R32 => R64, "cvt.u64.u32";
    cvt_s64_s32: None, S64 S32, R32 => R64, "cvt.s64.s32";
    cvt_u32_u64: None, U32 U64, R64 => R32, "cvt.u32.u64";
    cvt_rn_f32_u32: Some(Round::Rn), F32 U32, R32 => F32, "cvt.rn.f32.u32";
    cvt_rn_f32_s32: Some(Round::Rn), F32 S32, R32 => F32, "cvt.rn.f32.s32";
    cvt_rzi_u32_f32: Some(Round::Rzi), U32 F32, F32 => R32, "cvt.rzi.u32.f32";
    cvt_rzi_s32_f32: Some(Round::Rzi), S32 F32, F32 => R32, "cvt.rzi.s32.f32";
    cvt_rni_s32_f32: Some(Round::Rni), S32 F32, F32 => R32, "cvt.rni.s32.f32";
    cvt_rni_f32_f32: Some(Round::Rni), F32 F32, F32 => F32, "cvt.rni.f32.f32";
    cvt_rmi_f32_f32: Some(Round::Rmi), F32 F32, F32 => F32, "cvt.rmi.f32.f32";
    cvt_rn_bf16_f32: Some(Round::Rn), Bf16 F32, F32 => R16, "cvt.rn.bf16.f32";
    cvt_rn_f16_f32: Some(Round::Rn), F16 F32, F32 => R16, "cvt.rn.f16.f32";
    cvt_f32_f16: None, F32 F16, R16 => F32, "cvt.f32.f16";
    cvt_rna_tf32_f32: Some(Round::Rna), Tf32 F32, F32 => R32, "cvt.rna.tf32.f32";
}

impl KernelBuilder {
    /// `cvt.rn.bf16x2.f32`: two f32 rounded to a pair of bf16; `lo` lands in the low half.
    pub fn cvt_rn_bf16x2_f32(&mut self, hi: impl Source<F32>, lo: impl Source<F32>) -> R32 {
        self.cvt_pack(Type::Bf16x2, hi.operand(), lo.operand())
    }

    /// `cvt.rn.f16x2.f32`: two f32 rounded to a pair of f16; `lo` lands in the low half.
    pub fn cvt_rn_f16x2_f32(&mut self, hi: impl Source<F32>, lo: impl Source<F32>) -> R32 {
        self.cvt_pack(Type::F16x2, hi.operand(), lo.operand())
    }

    fn cvt_pack(&mut self, to: Type, hi: Operand, lo: Operand) -> R32 {
        let d: R32 = self.fresh();
        let (round, satfinite, relu, random) = (Round::Rn, false, false, None);
        self.emit(Op::CvtPack { round, satfinite, relu, to, d: d.reg(), hi, lo, random });
        d
    }

    /// The low bf16 of a pair as f32: exact, by a shift.
    pub fn bf16_lo_to_f32(&mut self, pair: R32) -> F32 {
        let bits = self.shl_b32(pair, 16);
        self.f32_of_bits(bits)
    }

    /// The high bf16 of a pair as f32: exact, by a mask.
    pub fn bf16_hi_to_f32(&mut self, pair: R32) -> F32 {
        let bits = self.and_b32(pair, 0xffff_0000_u32);
        self.f32_of_bits(bits)
    }

    /// Both bf16 of a pair as f32, `(lo, hi)`: exact.
    pub fn bf16x2_to_f32(&mut self, pair: R32) -> (F32, F32) {
        (self.bf16_lo_to_f32(pair), self.bf16_hi_to_f32(pair))
    }

    /// One bf16 as f32: exact.
    pub fn bf16_to_f32(&mut self, a: R16) -> F32 {
        let wide = self.cvt_u32_u16(a);
        self.bf16_lo_to_f32(wide)
    }

    /// An f32 rounded to the nearest bf16 (ties to even) and widened again: the value that a
    /// store to and a load from a bf16 tensor would give.
    pub fn round_to_bf16(&mut self, a: impl Source<F32>) -> F32 {
        let half = self.cvt_rn_bf16_f32(a);
        self.bf16_to_f32(half)
    }

    /// `mov.b32 d, {lo, hi}`.
    pub fn pack_b16x2(&mut self, lo: R16, hi: R16) -> R32 {
        let d: R32 = self.fresh();
        self.emit(Op::Pack { ty: Type::B32, d: d.reg(), a: vec![lo.operand(), hi.operand()] });
        d
    }

    /// `mov.b32 {lo, hi}, a`.
    pub fn unpack_b16x2(&mut self, a: R32) -> (R16, R16) {
        let (lo, hi): (R16, R16) = (self.fresh(), self.fresh());
        self.emit(Op::Unpack { ty: Type::B32, d: vec![lo.reg(), hi.reg()], a: a.operand() });
        (lo, hi)
    }

    /// `mov.b64 d, {lo, hi}`.
    pub fn pack_b32x2(&mut self, lo: R32, hi: R32) -> R64 {
        let d: R64 = self.fresh();
        self.emit(Op::Pack { ty: Type::B64, d: d.reg(), a: vec![lo.operand(), hi.operand()] });
        d
    }

    /// `mov.b64 {lo, hi}, a`.
    pub fn unpack_b32x2(&mut self, a: R64) -> (R32, R32) {
        let (lo, hi): (R32, R32) = (self.fresh(), self.fresh());
        self.emit(Op::Unpack { ty: Type::B64, d: vec![lo.reg(), hi.reg()], a: a.operand() });
        (lo, hi)
    }
}
