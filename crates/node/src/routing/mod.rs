//! Where is a key, and how does a request get there?
//!
//! | here | what |
//! |---|---|
//! | [`route`] | from a key to the shard that owns it, and to its replica here, if there is one |
//! | [`fetch`] | what a node reads of a shard that another node leads |
//! | `proxy` | requests for a shard without a replica here |
//! | [`pipeline`] | reads behind unanswered writes of their connection (SAFETY G26) |
//! | [`session`] | forwarded writes, each applied once (SAFETY G10) |

pub mod fetch;
pub mod pipeline;
pub(crate) mod proxy;
pub mod route;
pub mod session;
