package executor

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock says which files the plugin reaches, where Linux has Landlock: beside the
// view, or in its place where there are no namespaces.
type Landlock struct {
	// Read are files and folders that it may read and execute, Write folders in which
	// it may do everything, Use devices. What is not there is passed over.
	Read, Write, Use []string
	// Network: it may use TCP and abstract sockets of the machine.
	Network bool
}

// What Landlock knows, by its versions.
const (
	readRights  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	firstRights = unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1
	// fileRights are those that a rule about a file may have.
	fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	deviceRights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// LandlockVersion is that of the running Linux; 0: it has none.
func LandlockVersion() int {
	version, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// ruleset makes the rules while the files can still be opened; -1: there is no
// Landlock. Opened is executed, and may be read.
func (l *Landlock) ruleset(opened int) (int, error) {
	version := LandlockVersion()
	if version == 0 {
		return -1, nil
	}
	all := unix.LandlockRulesetAttr{Access_fs: firstRights}
	for _, right := range []struct {
		since int
		bits  uint64
	}{{2, unix.LANDLOCK_ACCESS_FS_REFER}, {3, unix.LANDLOCK_ACCESS_FS_TRUNCATE}, {5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV}} {
		if version >= right.since {
			all.Access_fs |= right.bits
		}
	}
	size := unsafe.Sizeof(all.Access_fs)
	if version >= 4 {
		size = unsafe.Offsetof(all.Scoped)
		if !l.Network {
			all.Access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		}
	}
	if version >= 6 {
		size = unsafe.Sizeof(all)
		all.Scoped = unix.LANDLOCK_SCOPE_SIGNAL
		if !l.Network {
			all.Scoped |= unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		}
	}
	rules, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&all)), size, 0)
	if errno != 0 {
		return -1, fmt.Errorf("rules about files: %w", errno)
	}
	allow := func(descriptor int, path string, rights uint64) error {
		var st unix.Stat_t
		if err := unix.Fstat(descriptor, &st); err != nil {
			return fmt.Errorf("stat %s: %w", path, err)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			rights &= fileRights
		}
		rule := unix.LandlockPathBeneathAttr{Allowed_access: rights & all.Access_fs, Parent_fd: int32(descriptor)}
		if _, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, rules, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
			return fmt.Errorf("rule about %s: %w", path, errno)
		}
		return nil
	}
	for _, of := range []struct {
		paths  []string
		rights uint64
	}{{l.Read, readRights}, {l.Write, all.Access_fs}, {l.Use, deviceRights}} {
		for _, path := range of.paths {
			descriptor, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
					continue // it is not reached then either
				}
				return -1, fmt.Errorf("open %s: %w", path, err)
			}
			err = allow(descriptor, path, of.rights)
			unix.Close(descriptor)
			if err != nil {
				return -1, err
			}
		}
	}
	if opened >= 0 {
		if err := allow(opened, "the executable", readRights); err != nil {
			return -1, err
		}
	}
	return int(rules), nil
}

// restrict puts the rules in force for this thread and what it executes.
func restrict(rules int) error {
	if rules < 0 {
		return nil
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules), 0, 0); errno != 0 {
		return fmt.Errorf("rules about files in force: %w", errno)
	}
	return unix.Close(rules)
}
