//! The key by which frames are spread over workers, as a program of classic BPF: the kernel puts each frame into the
//! ring of the worker that it belongs to.
//!
//! The program looks at addresses only. What it can't know (tunnels, quoted packets, tags within tags) it puts into
//! some ring, and the reader of that ring hands the frame over.

use crate::ethernet::ethertype;
use crate::partition::{FOLD, MIX};

/// An instruction (`struct sock_filter`): operation, jumps if true and if false, operand.
pub type KernelInstruction = (u16, u8, u8, u32);

/// Offsets from the network layer (`SKF_NET_OFF`), and of the ethertype that the kernel keeps next to the frame.
const NETWORK: u32 = -0x0010_0000_i32 as u32;
const KIND: u32 = -0x1000_i32 as u32;
/// Operations (linux/bpf_common.h).
const LD: u16 = 0x20;
const LD_MEM: u16 = 0x60;
const LDX_MEM: u16 = 0x61;
const ST: u16 = 0x02;
const TAX: u16 = 0x07;
const ADD_X: u16 = 0x0c;
const MUL: u16 = 0x24;
const XOR_X: u16 = 0xac;
const RSH: u16 = 0x74;
const JEQ: u16 = 0x15;
const JA: u16 = 0x05;
const RET: u16 = 0x06;
const RET_A: u16 = 0x16;

/// The program that returns the number of a frame's worker, of this many.
pub fn worker_program(workers: u16) -> Vec<KernelInstruction> {
    let plain = |code: u16, k: u32| (code, 0, 0, k);
    let fold = |at: u32, to: u32| {
        let words = (0..).zip(FOLD).flat_map(move |(n, by)| {
            let load = [plain(LD, NETWORK.wrapping_add(at + 4 * n)), plain(MUL, by)];
            let join = [plain(LDX_MEM, to), plain(XOR_X, 0)];
            let join = join.into_iter().filter(move |_| n > 0);
            load.into_iter().chain(join).chain([plain(ST, to)])
        });
        words.collect::<Vec<_>>()
    };
    let six = [fold(8, 0), fold(24, 1)].concat();
    let four = [
        plain(LD, NETWORK.wrapping_add(12)),
        plain(ST, 0),
        plain(LD, NETWORK.wrapping_add(16)),
        plain(ST, 1),
        plain(JA, six.len() as u32),
    ];
    let mut all = vec![
        plain(LD, KIND),
        (JEQ, 2, 0, u32::from(ethertype::IPV4)),
        (JEQ, 1 + four.len() as u8, 0, u32::from(ethertype::IPV6)),
        plain(RET, 0),
    ];
    all.extend(four);
    all.extend(six);
    all.extend([
        plain(LD_MEM, 0),
        plain(LDX_MEM, 1),
        plain(XOR_X, 0),
        plain(MUL, MIX[0]),
        plain(ST, 2),
        plain(LD_MEM, 0),
        plain(ADD_X, 0),
        plain(LDX_MEM, 2),
        plain(XOR_X, 0),
    ]);
    for (shift, by) in [(15, Some(MIX[1])), (13, Some(MIX[2])), (16, None)] {
        all.extend([plain(TAX, 0), plain(RSH, shift), plain(XOR_X, 0)]);
        all.extend(by.map(|by| plain(MUL, by)));
    }
    all.extend([plain(RSH, 16), plain(MUL, workers.into()), plain(RSH, 16), plain(RET_A, 0)]);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build;
    use crate::config::DecodeConfig;
    use crate::link::Link;
    use crate::partition::{ordinary_key, worker_of_key};

    /// Runs the program as the kernel does.
    fn run(program: &[KernelInstruction], kind: u16, packet: &[u8]) -> u32 {
        let (mut a, mut x, mut memory, mut at) = (0_u32, 0_u32, [0_u32; 16], 0);
        loop {
            let (code, jt, jf, k) = program[at];
            at += 1;
            match code {
                LD if k == KIND => a = kind.into(),
                LD => {
                    let place = k.wrapping_sub(NETWORK) as usize;
                    let Some(word) = packet.get(place..place + 4) else { return 0 };
                    a = u32::from_be_bytes(word.try_into().unwrap());
                }
                LD_MEM => a = memory[k as usize],
                LDX_MEM => x = memory[k as usize],
                ST => memory[k as usize] = a,
                TAX => x = a,
                ADD_X => a = a.wrapping_add(x),
                MUL => a = a.wrapping_mul(k),
                XOR_X => a ^= x,
                RSH => a >>= k,
                JEQ => at += usize::from(if a == k { jt } else { jf }),
                JA => at += k as usize,
                RET => return k,
                RET_A => return a,
                other => panic!("{other:#x}"),
            }
        }
    }

    #[test]
    fn the_kernel_finds_the_worker_that_the_key_names() {
        let mut seen = [0; 7];
        for workers in [1, 2, 4, 7] {
            let program = worker_program(workers);
            for n in 0..2000_u32 {
                let udp = build::udp(1, 2, b"x");
                let mut packets = [build::ipv4(17, &[], &udp), build::ipv6(17, &udp)];
                packets[0][12..20]
                    .copy_from_slice(&[n.to_be_bytes(), (n * 7 + 3).to_be_bytes()].concat());
                packets[1][20..24].copy_from_slice(&(n * 5).to_be_bytes());
                packets[1][24..28].copy_from_slice(&(n * 11).to_be_bytes());
                for (packet, kind) in packets.iter().zip([ethertype::IPV4, ethertype::IPV6]) {
                    let key = ordinary_key(&DecodeConfig::DEFAULT, Link::Raw, packet).unwrap();
                    let wanted = worker_of_key(key, usize::from(workers));
                    assert_eq!(run(&program, kind, packet) as usize, wanted);
                    seen[wanted] += usize::from(workers == 7);
                }
            }
            assert_eq!(run(&program, ethertype::ARP, &[0; 28]), 0);
            assert_eq!(run(&program, ethertype::IPV4, &[0x45; 10]), 0);
        }
        // 571 each if all were equal.
        assert!(seen.iter().all(|n| (430..720).contains(n)), "{seen:?}");
    }
}
