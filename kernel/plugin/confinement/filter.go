package confinement

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// refused are the system calls that a plugin has no use for, and who attacks the
// operating system has: EPERM.
var refused = []string{
	// New namespaces, in which a user without rights has them.
	"unshare", "setns",
	// Mounts and roots.
	"mount", "umount", "umount2", "pivot_root", "chroot", "mount_setattr", "move_mount", "open_tree", "open_tree_attr",
	"fsopen", "fsconfig", "fsmount", "fspick", "listmount", "statmount", "swapon", "swapoff", "quotactl", "quotactl_fd",
	// Other processes.
	"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "pidfd_getfd", "kcmp",
	"migrate_pages", "move_pages", "mbind", "set_mempolicy", "set_mempolicy_home_node",
	// Keys, programs in the kernel, its events and modules.
	"add_key", "request_key", "keyctl", "bpf", "perf_event_open", "fanotify_init", "fanotify_mark", "userfaultfd",
	"init_module", "finit_module", "delete_module", "create_module", "query_module", "get_kernel_syms",
	"kexec_load", "kexec_file_load", "reboot", "syslog", "acct", "lookup_dcookie", "nfsservctl", "vhangup",
	// Files without their paths.
	"open_by_handle_at", "name_to_handle_at",
	// The machine.
	"iopl", "ioperm", "modify_ldt", "vm86", "vm86old", "sethostname", "setdomainname", "settimeofday", "stime",
	"clock_settime", "clock_settime64", "clock_adjtime", "clock_adjtime64", "adjtimex", "socketcall", "uselib", "ustat", "sysfs", "_sysctl", "sysctl",
}

// unknown are system calls that are answered as one that the operating system does
// not have, so that programs take another: ENOSYS. So are all that no table knows.
var unknown = []string{"clone3", "io_uring_setup", "io_uring_enter", "io_uring_register", "memfd_secret"}

// conditional are allowed with some arguments alone; looks answers them.
var conditional = []string{"clone", "socket", "socketpair"}

// newNamespaces are the flags of clone that make one.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// argument is where the low half of an argument lies (struct seccomp_data). The
// calls that are looked at take no more of it.
func argument(n uint32) bpf.Instruction {
	low := uint32(16) + 8*n
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		low += 4
	}
	return bpf.LoadAbsolute{Off: low, Size: 4}
}

var allow = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}

func refuse(errno unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

// family allows the sockets of a family, and leaves the others to what follows;
// the family has been loaded. Of the network's, those that carry streams and
// datagrams are allowed.
func family(n uint32, then ...bpf.Instruction) []bpf.Instruction {
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: n, SkipFalse: uint8(len(then))}}, then...)
}

// sockets answers a call that makes sockets.
func sockets(network bool) []bpf.Instruction {
	none := refuse(unix.EAFNOSUPPORT)
	out := append([]bpf.Instruction{argument(0)}, family(unix.AF_UNIX, allow)...)
	if network {
		carried := []bpf.Instruction{
			argument(1), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xf},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOCK_STREAM, SkipTrue: 1},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SOCK_DGRAM, SkipTrue: 1},
			allow, none,
		}
		out = append(out, family(unix.AF_INET, carried...)...)
		out = append(out, family(unix.AF_INET6, carried...)...)
		// How resolvers learn the addresses of this machine.
		out = append(out, family(unix.AF_NETLINK, argument(2), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.NETLINK_ROUTE, SkipTrue: 1}, allow, none)...)
	}
	return append(out, none)
}

// looks are the answers to the calls whose arguments are looked at.
func looks(machine *arch.Info, network bool) []bpf.Instruction {
	answers := []struct {
		call string
		how  []bpf.Instruction
	}{
		{"socket", sockets(network)},
		{"socketpair", sockets(false)},
		{"clone", []bpf.Instruction{argument(0), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: newNamespaces, SkipFalse: 1}, refuse(unix.EPERM), allow}},
	}
	var out []bpf.Instruction
	for _, a := range answers {
		number, ok := machine.SyscallNames[a.call]
		if !ok {
			continue
		}
		// What is loaded last is lost in an answer, which always ends the program.
		out = append(append(out, bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(number | machine.SeccompMask), SkipFalse: uint8(len(a.how))}), a.how...)
	}
	// Calls of another processor have other numbers; what follows refuses them.
	return append([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 4}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(machine.ID), SkipTrue: uint8(len(out) + 1)},
		bpf.LoadAbsolute{Off: 0, Size: 4},
	}, out...)
}

var filters = [2]func() ([]unix.SockFilter, error){
	sync.OnceValues(func() ([]unix.SockFilter, error) { return assemble(false) }),
	sync.OnceValues(func() ([]unix.SockFilter, error) { return assemble(true) }),
}

// filter is the one of system calls, with those of the network or without.
func filter(network bool) ([]unix.SockFilter, error) {
	if network {
		return filters[1]()
	}
	return filters[0]()
}

// assemble makes the filter: what is in the table of this processor is allowed,
// but for what is refused. What is in no table, or comes by the calls of another
// processor (as 32-bit ones on a 64-bit machine), is unknown.
func assemble(network bool) ([]unix.SockFilter, error) {
	machine, err := arch.GetInfo("")
	if err != nil {
		return nil, fmt.Errorf("filter of system calls: %w", err)
	}
	there := func(names []string) (out []string) {
		for _, name := range names {
			if _, ok := machine.SyscallNames[name]; ok {
				out = append(out, name)
			}
		}
		return out
	}
	var allowed []string
	for name := range machine.SyscallNames {
		if !slices.Contains(refused, name) && !slices.Contains(unknown, name) && !slices.Contains(conditional, name) {
			allowed = append(allowed, name)
		}
	}
	// Equal filters for equal machines.
	slices.Sort(allowed)
	policy := seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{
		{Action: seccomp.ActionErrno | seccomp.Action(unix.EPERM), Names: there(refused)},
		{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: there(unknown)},
		{Action: seccomp.ActionAllow, Names: allowed},
	}}
	program, err := policy.Assemble()
	if err != nil {
		return nil, fmt.Errorf("filter of system calls: %w", err)
	}
	// The library knows one number for its default; programs expect another of what
	// the operating system does not have.
	last := len(program) - 1
	if _, ok := program[last].(bpf.RetConstant); !ok {
		return nil, fmt.Errorf("filter of system calls: ends with %v", program[last])
	}
	program[last] = bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)}
	// Conditions of the library's own lose the number of the call for what follows.
	raw, err := bpf.Assemble(append(looks(machine, network), program...))
	if err != nil {
		return nil, fmt.Errorf("filter of system calls: %w", err)
	}
	out := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		out[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return out, nil
}
