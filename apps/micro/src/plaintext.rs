//! A server of HTTP/1.1 by `waterwheel::http`, for comparisons with other libraries.

use waterwheel::channel::EventLoopGroup;
use waterwheel::http::{HttpServer, Request};
use waterwheel::net::{Auto, Tcp};

use crate::MicroResult;

/// Serves `Hello, World!` on one loop until the process is ended.
pub(crate) fn server(port: u16) -> MicroResult {
    let group = EventLoopGroup::builder(Auto).threads(1).build()?;
    let server = HttpServer::builder(hello).server_name("waterwheel").build()?;
    let listener = server.bind(&group, Tcp, ("127.0.0.1", port)).join()?;
    listener.closed().join()?;
    Ok(())
}

async fn hello(_: Request) -> &'static str {
    "Hello, World!"
}
