#![doc = include_str!("../../../README.md")]
#![forbid(unsafe_code)]

pub use bytes;
pub use waterwheel_channel as channel;
pub use waterwheel_codec as codec;
pub use waterwheel_executor as executor;
pub use waterwheel_handlers as handlers;
pub use waterwheel_net as net;

#[doc = include_str!("../../../docs/COMING_FROM_NETTY.md")]
pub mod coming_from_netty {}
