//! What a kernel text was built from.

use super::{
    AddNormSpec, AddSpec, AllReduceSpec, AttentionCombineSpec, AttentionSpec, BiasSpec, ChainAttentionSpec, EmbedSpec,
    GatherSpec, GemmSpec, HeadNormSpec, KernelText, RmsNormSpec, RopeStoreSpec, SiluMulSpec, SplitKReduceSpec,
    Top2Spec,
};

macro_rules! specs {
    ($($name:ident($spec:ident)),+ $(,)?) => {
        /// A spec of any kernel of this engine.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum KernelSpec {
            $($name($spec)),+
        }

        impl KernelSpec {
            /// The kernel.
            #[must_use]
            pub fn build(&self) -> KernelText {
                match self {
                    $(KernelSpec::$name(spec) => spec.build()),+
                }
            }
        }

        $(impl From<$spec> for KernelSpec {
            fn from(spec: $spec) -> Self {
                KernelSpec::$name(spec)
            }
        })+
    };
}

specs! {
    Add(AddSpec),
    AddNorm(AddNormSpec),
    AllReduce(AllReduceSpec),
    Attention(AttentionSpec),
    AttentionCombine(AttentionCombineSpec),
    Bias(BiasSpec),
    ChainAttention(ChainAttentionSpec),
    Embed(EmbedSpec),
    Gather(GatherSpec),
    Gemm(GemmSpec),
    HeadNorm(HeadNormSpec),
    RmsNorm(RmsNormSpec),
    RopeStore(RopeStoreSpec),
    SiluMul(SiluMulSpec),
    SplitKReduce(SplitKReduceSpec),
    Top2(Top2Spec),
}
