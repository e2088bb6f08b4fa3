//! The service manager that has started the gateway, as systemd and others are told of its state (`sd_notify`).

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use waterwheel::channel::{EventLoopGroup, interval};

/// The service manager; without one, nothing is told. Clones tell the same manager.
#[derive(Clone, Debug, Default)]
pub struct ServiceManager {
    connection: Option<Arc<ManagerSocket>>,
    /// The longest time between two signs of life.
    watchdog: Option<Duration>,
}

#[derive(Debug)]
struct ManagerSocket {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl ServiceManager {
    /// Finds the manager in the environment: NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID.
    ///
    /// # Errors
    /// A variable is not usable, or no socket can be made.
    pub fn find() -> io::Result<Self> {
        let Some(path) = env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else {
            return Ok(Self::default());
        };
        let manager = Self::at(&path)?;
        let variable = |name| env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
        let is_for_us =
            variable("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = variable("WATCHDOG_USEC").filter(|micros| is_for_us && *micros > 0);
        Ok(Self { watchdog: watchdog.map(Duration::from_micros), ..manager })
    }

    /// Returns the manager that listens at a path, or at an abstract name, which begins with `@`.
    fn at(path: &OsStr) -> io::Result<Self> {
        let address = match path.as_bytes().split_first() {
            Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(path)?,
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not hold the gateway up.
        socket.set_nonblocking(true)?;
        Ok(Self { connection: Some(Arc::new(ManagerSocket { socket, address })), watchdog: None })
    }

    /// Tells that the gateway serves. A process that has taken over says that it is the main one from now on.
    pub fn tell_ready(&self) {
        self.tell(&format!("READY=1\nMAINPID={}\n", std::process::id()));
    }

    /// Tells that the configuration is read again; [`tell_ready`](Self::tell_ready) follows.
    pub fn tell_reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\n"));
    }

    /// Tells that the gateway ends.
    pub fn tell_stopping(&self) {
        self.tell("STOPPING=1\n");
    }

    /// Shows signs of life for as long as all loops run tasks, if the manager wants them: one in each half of its time.
    pub fn show_life(&self, loops: &EventLoopGroup) {
        let Some(time) = self.watchdog else { return };
        let (manager, loops) = (self.clone(), loops.without_lease());
        let event_loop = loops.next();
        let show = async move {
            let mut ticks = interval(time / 2);
            loop {
                ticks.tick().await;
                for each in loops.children() {
                    match each.submit(|| ()) {
                        Ok(answer) => _ = answer.await,
                        Err(_) => return, // The loops end.
                    }
                }
                manager.tell("WATCHDOG=1\n");
            }
        };
        // Refused by loops that end.
        let _ = event_loop.spawn(show);
    }

    fn tell(&self, state: &str) {
        if let Some(to) = &self.connection {
            // Fails if the manager has gone, or has not read for long: it finds out by itself what becomes of the gateway.
            let _ = to.socket.send_to_addr(state.as_bytes(), &to.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manager(test: &str) -> (UnixDatagram, ServiceManager) {
        let name = format!("@waterwheel-{test}-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name.as_bytes()[1..]).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        (socket, ServiceManager::at(OsStr::new(&name)).unwrap())
    }

    fn next(socket: &UnixDatagram) -> String {
        let mut text = [0; 256];
        let count = socket.recv(&mut text).unwrap();
        String::from_utf8(text[..count].to_vec()).unwrap()
    }

    #[test]
    fn g07_the_service_manager_is_told_the_state() {
        let (socket, manager) = manager("state");
        manager.tell_ready();
        assert_eq!(next(&socket), format!("READY=1\nMAINPID={}\n", std::process::id()));
        manager.tell_reloading();
        assert!(next(&socket).starts_with("RELOADING=1\nMONOTONIC_USEC="));
        manager.tell_stopping();
        assert_eq!(next(&socket), "STOPPING=1\n");
        drop(socket);
        manager.tell_ready(); // The manager has gone.
        ServiceManager::default().tell_ready();
    }

    #[test]
    fn g07_signs_of_life_come_while_all_loops_run_tasks() {
        use waterwheel::net::Auto;

        let (socket, mut manager) = manager("life");
        manager.watchdog = Some(Duration::from_millis(10));
        let loops = EventLoopGroup::builder(Auto).threads(2).build().unwrap();
        manager.show_life(&loops);
        for _ in 0..3 {
            assert_eq!(next(&socket), "WATCHDOG=1\n");
        }
        loops.shutdown_gracefully(Duration::ZERO, Duration::from_secs(20)).unwrap().join().unwrap();
    }
}
