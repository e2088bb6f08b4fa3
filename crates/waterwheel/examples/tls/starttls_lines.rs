//! Lines over a connection that begins in the clear, and changes to TLS and back on request.
//!
//! ```sh
//! cargo run --release -p waterwheel --example starttls_lines -- 7000 cert.pem key.pem   # made as for tls_echo
//! openssl s_client -starttls smtp -connect localhost:7000 -CAfile cert.pem              # in another terminal
//! openssl s_client -starttls ftp -connect localhost:7000 -CAfile cert.pem
//! ```
//!
//! | a client sends | and gets |
//! |---|---|
//! | `EHLO name`, `FEAT` | what the server can do, as SMTP and FTP say it |
//! | `STARTTLS`, `AUTH TLS` | `220` or `234`: from here on TLS |
//! | `CCC`, or a close_notify | `200`, close_notify: from here on in the clear |
//! | `QUIT` | `221`, and the end |
//! | another line | that line, and whether it came in the clear |
//!
//! Shows that no byte is lost or taken for another when a protocol changes:
//!
//! 1. A ClientHello may come in the same read as its `STARTTLS`. The line decoder hands its unread bytes to the handler
//!    that replaces it: the TLS handler.
//! 2. For the same reason commands that were sent in the clear behind `STARTTLS` are not carried out within TLS
//!    (CVE-2011-0411): the TLS handler refuses them, since they are no TLS.
//! 3. When TLS ends, the rest of an unfinished line is dropped: the bytes that follow in the clear are not its end.

use std::error::Error;

use waterwheel::channel::{
    Ctx, EventLoopGroup, HandlerResult, In, InboundHandler, Msg, Name, ServerBootstrap, SlotId,
};
use waterwheel::codec::{LineDecoder, LineEncoder, TextLines};
use waterwheel::executor;
use waterwheel::net::{Auto, Tcp};
use waterwheel::tls::{OnCloseNotify, ServerTls, StopTls, TlsHandler, TlsOptions, TlsStopped};

struct Session {
    config: ServerTls,
    options: TlsOptions,
    /// The slot of the line decoder.
    decoder: SlotId,
    security: Security,
}

/// How lines are sent at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Security {
    Clear,
    Tls,
    /// TLS ends as soon as the peer has answered with its close_notify.
    TlsEnding,
}

fn decode_lines() -> TextLines {
    LineDecoder::new(1024).fail_fast().text()
}

impl InboundHandler for Session {
    type In = String;

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.write_and_flush("220 lines, STARTTLS and CCC");
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, line: String) -> HandlerResult {
        if self.security == Security::TlsEnding {
            return Ok(()); // Sent too late: an answer would be in the clear.
        }
        let is_tls = self.security == Security::Tls;
        let (command, argument) = line.split_once(' ').unwrap_or((&line, ""));
        match (command.to_ascii_uppercase().as_str(), argument) {
            ("EHLO" | "LHLO", name) => {
                ctx.write(format!("250-hello {name}"));
                ctx.write(if is_tls { "250 CCC" } else { "250 STARTTLS" });
            }
            ("FEAT", "") => {
                ctx.write("211-features");
                ctx.write(if is_tls { " CCC" } else { " AUTH TLS" });
                ctx.write("211 end");
            }
            ("STARTTLS", "") if !is_tls => self.start_tls(ctx, "220 go ahead")?,
            ("AUTH", "TLS") if !is_tls => self.start_tls(ctx, "234 go ahead")?,
            ("CCC", "") if is_tls => {
                ctx.write("200 in the clear from here");
                self.security = Security::TlsEnding;
                ctx.channel().fire_user_event(StopTls);
            }
            ("STARTTLS" | "AUTH" | "CCC", _) => ctx.write("503 not now"),
            ("QUIT", "") => {
                ctx.write_and_flush("221 bye");
                ctx.close();
            }
            _ => ctx.write(format!("250 {:?}: {line}", self.security)),
        }
        ctx.flush();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<TlsStopped>() {
            self.stop_tls(ctx)?;
        }
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: executor::Error) -> HandlerResult {
        eprintln!("{:?}: {error}", ctx.channel().peer_address());
        ctx.close(); // A line that is too long, or TLS that has failed.
        Ok(())
    }
}

impl Session {
    /// Answers in the clear, and puts TLS in the place of the line decoder, which hands its unread bytes on to it.
    fn start_tls(&mut self, ctx: &Ctx<'_>, answer: &'static str) -> HandlerResult {
        ctx.write_and_flush(answer);
        let tls = TlsHandler::server(self.config.clone()).with_options(self.options);
        self.decoder = ctx.pipeline().edit(|edit| {
            edit.replace(self.decoder, "tls", tls)?;
            edit.add_after("tls", Name::auto(), decode_lines())
        })?;
        self.security = Security::Tls;
        Ok(())
    }

    /// Takes a new line decoder, before the old one: what that one has not decoded does not reach the new one.
    fn stop_tls(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.decoder = ctx.pipeline().edit(|edit| {
            let decoder = edit.add_before(self.decoder, Name::auto(), decode_lines())?;
            edit.remove(self.decoder)?;
            Ok::<_, executor::Error>(decoder)
        })?;
        self.security = Security::Clear;
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [port, certificate, key] = &args[..] else {
        return Err("usage: starttls_lines PORT CERTIFICATE.pem KEY.pem".into());
    };
    let config = ServerTls::builder().certificate_files(certificate, key).build()?;
    let options = TlsOptions::builder().on_close_notify(OnCloseNotify::StopTls).build()?;
    let group = EventLoopGroup::builder(Auto).threads(1).name("starttls").build()?;
    let server = ServerBootstrap::new(&group, Tcp)
        .child_initialiser(move |edit| {
            let decoder = edit.add_last(Name::auto(), decode_lines())?;
            edit.add_last("encode lines", LineEncoder::crlf())?;
            let (config, security) = (config.clone(), Security::Clear);
            let session = Session { config, options, decoder, security };
            edit.add_last("session", In(session))?;
            Ok(())
        })
        .bind(("127.0.0.1", port.parse::<u16>()?))
        .join()?;
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    server.closed().join()?;
    Ok(())
}
