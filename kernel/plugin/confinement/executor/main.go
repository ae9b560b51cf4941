package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Main does what the Spec says and never returns. It must run on the first thread
// of the process, as init functions and main do: what a thread gives up, the
// process that it executes lacks.
func Main() {
	runtime.LockOSThread()
	report := os.NewFile(failureDescriptor, "failure")
	wall, err := enter()
	f := Failure{Wall: wall, Step: err.Error()}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		f.Errno = int(errno)
	}
	if report != nil {
		_ = json.NewEncoder(report).Encode(f)
	}
	os.Exit(1)
}

// enter returns only with an error, and the wall that it stands for.
func enter() (wall string, err error) {
	if unix.Gettid() != unix.Getpid() {
		return "", errors.New("not on the first thread")
	}
	spec, err := read()
	if err != nil {
		return "", err
	}
	// Whoever waits is told, also when a file system does not answer.
	time.AfterFunc(time.Duration(spec.Milliseconds)*time.Millisecond, func() { os.Exit(1) })
	if spec.Inherited < 0 || spec.Inherited > maxInherited {
		return "", fmt.Errorf("%d inherited descriptors, at most %d", spec.Inherited, maxInherited)
	}
	// What is not handed on is closed by the execution.
	if err := unix.CloseRange(specDescriptor, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return "", fmt.Errorf("close descriptors: %w", err)
	}
	if spec.Hostname != "" {
		if err := unix.Sethostname([]byte(spec.Hostname)); err != nil {
			return WallNamespaces, fmt.Errorf("set host name: %w", err)
		}
	}
	if spec.Loopback {
		if err := loopback(); err != nil {
			return WallNamespaces, fmt.Errorf("loopback: %w", err)
		}
	}
	if spec.View != nil {
		if err := spec.View.enter(spec.User); err != nil {
			return WallNamespaces, err
		}
	}
	if err := os.Chdir(spec.Directory); err != nil {
		return "", err
	}
	for what, n := range spec.Limits {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(what, &now); err != nil {
			return "", fmt.Errorf("limit %d: %w", what, err)
		}
		n = min(n, now.Max)
		if err := syscall.Setrlimit(what, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			return "", fmt.Errorf("limit %d: %w", what, err)
		}
	}
	rules := -1
	if spec.Landlock != nil {
		executable := -1
		if spec.Opened {
			executable = FirstInherited + spec.Inherited
		}
		if rules, err = spec.Landlock.ruleset(executable); err != nil {
			return "", err
		}
	}
	if err := giveUpRights(spec); err != nil {
		return "", err
	}
	if err := restrict(rules); err != nil {
		return "", err
	}
	path := spec.Path
	if spec.Opened {
		path = fmt.Sprintf("/proc/self/fd/%d", FirstInherited+spec.Inherited)
	}
	// The descriptors of the plugin come to where it looks for them.
	for i := range spec.Inherited {
		if err := unix.Dup3(FirstInherited+i, 3+i, 0); err != nil {
			return "", fmt.Errorf("inherited descriptor %d: %w", i, err)
		}
	}
	return execute(path, spec)
}

// maxInherited keeps what the plugin inherits off failureDescriptor.
const maxInherited = 1

// execute loads the filter and executes the plugin.
func execute(path string, spec *Spec) (string, error) {
	environment := os.Environ()
	if len(spec.Filter) > 0 {
		program := unix.SockFprog{Len: uint16(len(spec.Filter)), Filter: &spec.Filter[0]}
		if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
			return WallSeccomp, fmt.Errorf("filter of system calls: %w", errno)
		}
	}
	err := syscall.Exec(path, []string{spec.Path}, environment)
	return "", fmt.Errorf("execute %s: %w", spec.Path, err)
}

// specification stays open, so that nothing else gets its number, which is that of
// what the plugin inherits.
var specification *os.File

func read() (*Spec, error) {
	specification = os.NewFile(specDescriptor, "specification")
	if specification == nil {
		return nil, errors.New("no specification: the kernel starts this program")
	}
	data, err := io.ReadAll(specification)
	if err != nil {
		return nil, fmt.Errorf("specification: %w", err)
	}
	spec := &Spec{}
	if err := json.Unmarshal(data, spec); err != nil {
		return nil, fmt.Errorf("specification: %w", err)
	}
	if spec.Version != Version {
		return nil, fmt.Errorf("specification of version %d, want %d: %s and the kernel are of different builds", spec.Version, Version, Program)
	}
	return spec, nil
}

// giveUpRights takes from this thread, and from what it executes, the means to
// gain rights, and gives it its user.
func giveUpRights(spec *Spec) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if spec.Capabilities {
		for capability := uintptr(0); ; capability++ {
			if spec.LowPorts && capability == unix.CAP_NET_BIND_SERVICE {
				continue
			}
			err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
			if errors.Is(err, unix.EINVAL) && capability > 0 {
				break // beyond the last one there is
			}
			if errors.Is(err, unix.EPERM) {
				break // not ours to drop; a user of its own has none either way
			}
			if err != nil {
				return fmt.Errorf("drop capability %d: %w", capability, err)
			}
		}
	}
	if spec.LowPorts {
		// Else the change of the user would take it away.
		if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("keep the right to low ports: %w", err)
		}
	}
	if spec.User > 0 {
		// Of this thread alone: it is the one that executes the plugin.
		id := uintptr(spec.User)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
			return fmt.Errorf("give up groups: %w", errno)
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, id, id, id); errno != 0 {
			return fmt.Errorf("group %d: %w", spec.User, errno)
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, id, id, id); errno != 0 {
			return fmt.Errorf("user %d: %w", spec.User, errno)
		}
	}
	if spec.Capabilities {
		if err := keepCapabilities(spec.LowPorts); err != nil {
			return err
		}
	}
	// A change of the user took it away.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the kernel: %w", err)
	}
	return nil
}

// keepCapabilities gives up all capabilities of this thread, but for that of low ports
// where they are meant. What the bounding set lacks is of no use after the execution
// either; without it in this thread, it is of no use before.
func keepCapabilities(lowPorts bool) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var left [2]unix.CapUserData
	if lowPorts {
		left[0].Permitted, left[0].Inheritable = 1<<unix.CAP_NET_BIND_SERVICE, 1<<unix.CAP_NET_BIND_SERVICE
	}
	if err := unix.Capset(&header, &left[0]); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	if !lowPorts {
		return nil
	}
	// An ambient one is that of the executed program, too, whose file names none.
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_NET_BIND_SERVICE, 0, 0); err != nil {
		return fmt.Errorf("keep the right to low ports: %w", err)
	}
	return nil
}

// loopback brings up the loopback of a new network namespace.
func loopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, request)
}

// opened is a file or folder of the machine that comes into the view.
type opened struct {
	descriptor int
	at         string
	folder     bool
	device     bool
}

// enter makes the view the root of this process.
func (v *View) enter(user int) error {
	// Nothing that is mounted here reaches the machine, or from there here.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// The machine's files are opened while they can be reached by their paths.
	var all []opened
	links := map[string]string{}
	add := func(from, at string, optional, device bool) error {
		descriptor, err := unix.Open(from, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			if optional && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)) {
				return nil
			}
			return fmt.Errorf("open %s: %w", from, err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(descriptor, &st); err != nil {
			return fmt.Errorf("stat %s: %w", from, err)
		}
		all = append(all, opened{descriptor, at, st.Mode&unix.S_IFMT == unix.S_IFDIR, device})
		return nil
	}
	for _, path := range v.System {
		if target, err := os.Readlink(path); err == nil && filepath.Dir(path) == "/" {
			links[path] = target
			continue
		}
		if err := add(path, path, true, false); err != nil {
			return err
		}
	}
	for _, path := range v.Devices {
		if err := add(path, path, true, true); err != nil {
			return err
		}
	}
	for _, b := range v.Binds {
		if err := add(b.From, b.At, b.Optional, false); err != nil {
			return err
		}
	}
	if err := unix.Mount("tmpfs", v.Staging, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,nr_inodes=4096,mode=0755"); err != nil {
		return fmt.Errorf("mount a root: %w", err)
	}
	const former = "former-root"
	if err := os.Mkdir(filepath.Join(v.Staging, former), 0o700); err != nil {
		return err
	}
	if err := unix.PivotRoot(v.Staging, filepath.Join(v.Staging, former)); err != nil {
		return fmt.Errorf("turn to the new root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	// The process ids that it sees are its own.
	if err := mountAt("/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	for path, target := range links {
		if err := os.Symlink(target, path); err != nil {
			return err
		}
	}
	if err := os.Mkdir("/dev", 0o755); err != nil {
		return err
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(target, "/dev/"+name); err != nil {
			return err
		}
	}
	// Folders in memory first: what is bound may lie in them.
	for _, s := range v.Scratch {
		if !s.Owned {
			if err := s.mount(user); err != nil {
				return err
			}
		}
	}
	for _, o := range all {
		if err := o.bind(); err != nil {
			return err
		}
	}
	// And those that lie in what was bound.
	for _, s := range v.Scratch {
		if s.Owned {
			if err := s.mount(user); err != nil {
				return err
			}
		}
	}
	if err := unix.Unmount("/"+former, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the former root: %w", err)
	}
	if err := os.Remove("/" + former); err != nil {
		return err
	}
	for _, path := range []string{"/proc", "/"} {
		if err := unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			return fmt.Errorf("make %s read-only: %w", path, err)
		}
	}
	return nil
}

// mountAt mounts a file system of a kind at a folder that is made for it.
func mountAt(path, kind string, flags uintptr, options string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(kind, path, kind, flags, options); err != nil {
		return fmt.Errorf("mount %s at %s: %w", kind, path, err)
	}
	return nil
}

func (s *Scratch) mount(user int) error {
	options := fmt.Sprintf("size=%d,nr_inodes=%d,mode=%04o", s.Bytes, s.Files, s.Mode)
	if s.Owned {
		options += fmt.Sprintf(",uid=%d,gid=%d", user, user)
	}
	return mountAt(s.At, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options)
}

// bind puts it into the view, read-only unless it is a device.
func (o *opened) bind() error {
	if o.folder {
		if err := os.MkdirAll(o.at, 0o755); err != nil {
			return err
		}
	} else {
		if err := os.MkdirAll(filepath.Dir(o.at), 0o755); err != nil {
			return err
		}
		f, err := os.OpenFile(o.at, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil && !errors.Is(err, unix.EROFS) {
			return err
		}
		f.Close()
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", o.descriptor), o.at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", o.at, err)
	}
	unix.Close(o.descriptor)
	set := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV)
	if o.device {
		set = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
	}
	err := unix.MountSetattr(unix.AT_FDCWD, o.at, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: set})
	if errors.Is(err, unix.ENOSYS) && !o.device {
		// Before Linux 5.12: of the folder itself alone.
		err = unix.Mount("", o.at, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
	}
	if err != nil && !(o.device && errors.Is(err, unix.ENOSYS)) {
		return fmt.Errorf("make %s read-only: %w", o.at, err)
	}
	return nil
}
