//! What `gabion doctor` looks up of an interface: its ring, queues and offloads, and what was lost before sockets.

use super::before_socket::BeforeSocket;
use gabion_runtime::processors;
use gabion_runtime::sockets::packets::{
    InterfaceHardware, NetworkInterface, find_interface, interface_hardware,
};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

/// An interface as it is now.
#[derive(Clone, Debug)]
pub struct InterfaceHealth {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: NetworkInterface,
    /// What its driver says.
    pub hardware: InterfaceHardware,
    /// What was lost before sockets since it came up.
    pub lost: BeforeSocket,
}

impl InterfaceHealth {
    /// Looks an interface up.
    ///
    /// # Errors
    /// There is none with this name.
    pub fn look_up(name: &str) -> io::Result<InterfaceHealth> {
        // Any socket will do to ask about interfaces.
        let socket = UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
        let state = find_interface(socket.as_fd(), name)?;
        let hardware = interface_hardware(socket.as_fd(), name)?;
        let lost = BeforeSocket::of_interface(name);
        Ok(InterfaceHealth { name: name.to_owned(), state, hardware, lost })
    }

    /// What is to be changed: what is wrong, and how it is changed.
    pub fn advice(&self) -> Vec<(String, String)> {
        self.advice_for(processors::available())
    }

    /// The same, of a host with this many processors.
    fn advice_for(&self, processors: usize) -> Vec<(String, String)> {
        let InterfaceHealth { name, state, hardware, lost } = self;
        let mut all = Vec::new();
        let mut say = |what: String, change: String| all.push((what, change));
        if !state.is_up {
            say(format!("{name} is down"), format!("`ip link set {name} up`"));
        }
        let of_interface = lost.of_interface_total();
        if of_interface > 0 {
            let change = match hardware.ring {
                Some((now, most)) if now < most => {
                    format!(
                        "`ethtool -G {name} rx {most}` (now {now}); the counters begin again with the next load of its driver"
                    )
                }
                _ => "spread its interrupts over more processors, or give it fewer packets"
                    .to_owned(),
            };
            say(format!("{name} lost {of_interface} frames before they reached a socket"), change);
        }
        if lost.backlog > 0 {
            say(
                format!(
                    "queues of this host's processors were full: {} frames of all interfaces",
                    lost.backlog
                ),
                format!(
                    "`sysctl -w net.core.netdev_max_backlog=10000`, and spread packets: /sys/class/net/{name}/queues/rx-0/rps_cpus"
                ),
            );
        }
        // One processor takes what comes from a queue: packets wait there while others have nothing to do.
        let processors = u32::try_from(processors).unwrap_or(u32::MAX);
        if let Some((now, most)) = hardware.queues
            && now < most.min(processors)
        {
            let wanted = most.min(processors);
            say(
                format!(
                    "{name} receives with {now} of {most} queues, and the host has {processors} processors"
                ),
                format!("`ethtool -L {name} combined {wanted}`"),
            );
        }
        if hardware.lro == Some(true) {
            say(
                format!("{name} puts packets together (LRO): what rules see is not what was sent"),
                format!("`ethtool -K {name} lro off`"),
            );
        }
        if hardware.gro == Some(true) && name != "lo" {
            say(
                format!(
                    "the kernel puts packets of {name} together (GRO): sizes and flags of packets are lost"
                ),
                format!("`ethtool -K {name} gro off`"),
            );
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> InterfaceHealth {
        InterfaceHealth { name: "eth0".to_owned(), ..InterfaceHealth::look_up("lo").unwrap() }
    }

    #[test]
    fn each_fault_has_its_advice() {
        let good = InterfaceHealth {
            hardware: InterfaceHardware { gro: Some(false), ..InterfaceHardware::default() },
            lost: BeforeSocket::default(),
            ..health()
        };
        assert_eq!(good.advice_for(4), []);
        let hardware = InterfaceHardware {
            ring: Some((256, 4096)),
            gro: Some(true),
            lro: Some(true),
            queues: Some((1, 8)),
        };
        let lost = BeforeSocket { backlog: 3, dropped: 4, missed: 5 };
        let state = NetworkInterface { is_up: false, ..good.state.clone() };
        let bad = InterfaceHealth { hardware, lost, state, ..good };
        let said: Vec<String> = bad
            .advice_for(4)
            .into_iter()
            .map(|(what, change)| format!("{what}: {change}"))
            .collect();
        assert_eq!(said.len(), 6, "{said:#?}");
        for (line, part) in said.iter().zip([
            "set eth0 up",
            "lost 9 frames",
            "netdev_max_backlog",
            "1 of 8 queues, and the host has 4 processors: `ethtool -L eth0 combined 4`",
            "lro off",
            "gro off",
        ]) {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(said[1].contains("ethtool -G eth0 rx 4096"), "{}", said[1]);
        assert!(InterfaceHealth::look_up("nothere0").is_err());
    }

    /// More queues are advised where there are some, and processors for them.
    #[test]
    fn queues_in_use_are_as_many_as_the_interface_and_the_host_allow() {
        let advised = |queues, processors| {
            let hardware = InterfaceHardware { queues, ..InterfaceHardware::default() };
            let all = InterfaceHealth { hardware, lost: BeforeSocket::default(), ..health() };
            let changes = all.advice_for(processors).into_iter().map(|(_, change)| change);
            changes.filter(|change| change.contains("ethtool -L")).collect::<Vec<_>>()
        };
        for (queues, processors) in
            [(None, 8), (Some((1, 1)), 8), (Some((2, 8)), 2), (Some((8, 8)), 16)]
        {
            assert_eq!(advised(queues, processors), [""; 0], "{queues:?} {processors}");
        }
        assert_eq!(advised(Some((2, 8)), 16), ["`ethtool -L eth0 combined 8`"]);
    }
}
