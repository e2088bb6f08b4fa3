//! An echo server with TLS.
//!
//! ```sh
//! openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 \
//!     -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem
//! cargo run --release -p waterwheel --example tls_echo -- 7000 cert.pem key.pem
//! openssl s_client -connect localhost:7000 -CAfile cert.pem        # in another terminal
//! ```

use std::error::Error;

use waterwheel::channel::{
    Ctx, EventLoopGroup, Events, Handler, HandlerResult, Msg, ServerBootstrap,
};
use waterwheel::net::{Auto, Tcp};
use waterwheel::tls::{ServerTls, TlsHandler, TlsHandshake};

struct Echo;

impl Handler for Echo {
    fn interest(&self) -> Events {
        Events::READ | Events::READ_COMPLETE | Events::USER_EVENT | Events::ERROR
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write(msg);
        Ok(())
    }

    /// Flushes once per read round: the answers of a round share a record.
    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        if let Some(TlsHandshake { version, cipher_suite, .. }) = event.get() {
            println!("handshake: {version:?}, {cipher_suite:?}");
        }
        Ok(())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: waterwheel::executor::Error) -> HandlerResult {
        println!("{:?}: {error}", ctx.channel().peer_address());
        ctx.close();
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [port, certificate, key] = &args[..] else {
        return Err("usage: tls_echo PORT CERTIFICATE.pem KEY.pem".into());
    };
    let config = ServerTls::builder().certificate_files(certificate, key).build()?;
    let group = EventLoopGroup::builder(Auto).threads(1).name("tls echo").build()?;
    let server = ServerBootstrap::new(&group, Tcp)
        .child_initialiser(move |edit| {
            edit.add_last("tls", TlsHandler::server(config.clone()))?;
            edit.add_last("echo", Echo)?;
            Ok(())
        })
        .bind(("127.0.0.1", port.parse::<u16>()?))
        .join()?;
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    server.closed().join()?;
    Ok(())
}
