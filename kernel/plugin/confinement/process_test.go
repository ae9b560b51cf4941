package confinement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/kernel/plugin/confinement/executor"
)

// TestMain: the binary is also the plugin that attacks.
func TestMain(m *testing.M) {
	if os.Getenv("ATTACK") != "" {
		attack()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// seen is what the attacker tells of itself and of each attempt: "" is success.
type seen struct {
	UID, GID, PID, Processes int
	Hostname, Directory      string
	Capabilities             string
	Attempts                 map[string]string
	Open                     []string // its descriptors
	Limit                    uint64   // of a file
	Socket                   string
}

func attack() {
	runtime.LockOSThread()
	s := seen{UID: os.Getuid(), GID: os.Getgid(), PID: os.Getpid(), Attempts: map[string]string{}}
	s.Hostname, _ = os.Hostname()
	s.Directory, _ = os.Getwd()
	status, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(status), "\n") {
		if strings.HasPrefix(line, "Cap") || strings.HasPrefix(line, "NoNewPrivs") {
			s.Capabilities += strings.Join(strings.Fields(line), "") + " "
		}
	}
	mates, _ := filepath.Glob("/proc/[0-9]*")
	s.Processes = len(mates)
	for _, f := range func() []os.DirEntry { e, _ := os.ReadDir("/proc/self/fd"); return e }() {
		if target, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil {
			s.Open = append(s.Open, f.Name()+" "+target)
		}
	}
	var limit syscall.Rlimit
	_ = syscall.Getrlimit(unix.RLIMIT_FSIZE, &limit)
	s.Limit = limit.Max
	try := func(what string, err error) {
		if s.Attempts[what] = ""; err != nil {
			s.Attempts[what] = err.Error()
		}
	}
	call := func(what string, number uintptr, args ...uintptr) {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
		var err error
		if errno != 0 {
			err = errno
		}
		try(what, err)
	}
	socket := func(what string, family, kind, protocol int) {
		fd, err := unix.Socket(family, kind, protocol)
		if err == nil {
			unix.Close(fd)
		}
		try(what, err)
	}
	socket("packet socket", unix.AF_PACKET, unix.SOCK_RAW, 0)
	socket("raw socket", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
	socket("internet socket", unix.AF_INET, unix.SOCK_STREAM, 0)
	socket("internet 6 socket", unix.AF_INET6, unix.SOCK_DGRAM, 0)
	socket("netlink socket", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)
	socket("route socket", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	socket("vsock socket", unix.AF_VSOCK, unix.SOCK_STREAM, 0)
	socket("alg socket", unix.AF_ALG, unix.SOCK_SEQPACKET, 0)
	socket("unix socket", unix.AF_UNIX, unix.SOCK_STREAM, 0)
	call("unix socket pair of another family", unix.SYS_SOCKETPAIR, unix.AF_TIPC, unix.SOCK_STREAM, 0, uintptr(unsafe.Pointer(new([2]int32))))
	call("socket of a family beyond 32 bits", unix.SYS_SOCKET, 1<<32|unix.AF_INET, unix.SOCK_STREAM, 0)
	try("connect to loopback", func() error {
		c, err := net.DialTimeout("tcp", os.Getenv("LOOPBACK"), time.Second)
		if err == nil {
			c.Close()
		}
		return err
	}())
	try("connect to an abstract socket", func() error {
		c, err := net.Dial("unix", os.Getenv("ABSTRACT"))
		if err == nil {
			c.Close()
		}
		return err
	}())
	try("new user namespace", unix.Unshare(unix.CLONE_NEWUSER))
	try("new user namespace of a child", func() error {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
		return cmd.Run()
	}())
	call("clone3", unix.SYS_CLONE3, 0, 0)
	try("enter a namespace", unix.Setns(0, 0))
	try("mount", unix.Mount("tmpfs", "/tmp", "tmpfs", 0, ""))
	call("open tree", unix.SYS_OPEN_TREE, ^uintptr(99), uintptr(unsafe.Pointer(&[]byte("/\x00")[0])), 1)
	call("new file system", unix.SYS_FSOPEN, uintptr(unsafe.Pointer(&[]byte("tmpfs\x00")[0])), 0)
	try("unmount", unix.Unmount("/tmp", unix.MNT_DETACH))
	try("change root", unix.Chroot("/tmp"))
	try("pivot root", unix.PivotRoot("/tmp", "/tmp"))
	try("trace itself", unix.PtraceAttach(os.Getppid()))
	call("be traced", unix.SYS_PTRACE, unix.PTRACE_TRACEME)
	call("read a process", unix.SYS_PROCESS_VM_READV, uintptr(os.Getpid()), 0, 0, 0, 0, 0)
	call("bpf", unix.SYS_BPF, 0, 0, 0)
	call("key ring", unix.SYS_KEYCTL, 0, 0, 0)
	call("perf events", unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0)
	call("user faults", unix.SYS_USERFAULTFD, 0)
	call("io_uring", unix.SYS_IO_URING_SETUP, 8, 0)
	call("module", unix.SYS_FINIT_MODULE, 0, 0, 0)
	call("kexec", unix.SYS_KEXEC_LOAD, 0, 0, 0, 0)
	call("file by handle", unix.SYS_OPEN_BY_HANDLE_AT, 0, 0, 0)
	call("host name", unix.SYS_SETHOSTNAME, uintptr(unsafe.Pointer(&[]byte("x")[0])), 1)
	call("a call that no table knows", 5000)
	if runtime.GOARCH == "amd64" {
		call("a call of the x32 table", 0x40000000|unix.SYS_GETPID)
	}
	_, err := os.ReadFile(os.Getenv("SECRET"))
	try("read a secret", err)
	for what, path := range map[string]string{"write to its root": "/x", "write to programs": "/usr/bin/x", "write to its own folder": filepath.Join(filepath.Dir(os.Args[0]), "x"), "write to devices": "/dev/x", "write to proc": "/proc/self/comm"} {
		try(what, os.WriteFile(path, []byte("x"), 0o600))
	}
	try("write to its executable", os.WriteFile(os.Args[0], []byte("x"), 0o600))
	try("scratch", os.WriteFile("/tmp/x", []byte("x"), 0o600))
	if os.Getenv("MACHINE") == "" {
		fillUp(try)
	}
	for what, path := range map[string]string{"list the data directory": filepath.Dir(os.Getenv("SECRET")), "list run": "/run", "list home": "/root", "list var": "/var", "list sys": "/sys/kernel"} {
		_, err := os.ReadDir(path)
		try(what, err)
	}
	if kernel := os.Getppid(); kernel > 0 {
		try("signal the kernel", unix.Kill(kernel, 0))
		_, err := os.ReadFile(procOf(kernel) + "/environ")
		try("read the kernel's environment", err)
		_, err = os.Open(procOf(kernel) + "/root/etc")
		try("pass through the kernel's root", err)
	}
	try("take a file out of its place", os.Rename(os.Getenv("SECRET"), filepath.Join(os.Getenv("SOCKETS"), "secret")))
	try("link to a file", os.Link(os.Getenv("SECRET"), filepath.Join(os.Getenv("SOCKETS"), "linked")))
	try("listen at a low port", func() (err error) {
		for port := 941; port < 951; port++ { // one that nobody has
			var l net.Listener
			if l, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
				l.Close()
			}
			if !errors.Is(err, unix.EADDRINUSE) {
				break
			}
		}
		return err
	}())
	ln, err := net.Listen("unix", filepath.Join(os.Getenv("SOCKETS"), "own"))
	try("listen", err)
	_ = os.Symlink("own", filepath.Join(os.Getenv("SOCKETS"), "link"))
	_ = os.WriteFile(filepath.Join(os.Getenv("SOCKETS"), "file"), nil, 0o600)
	_ = json.NewEncoder(os.Stdout).Encode(s)
	if ln != nil {
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte("hello"))
				c.Close()
			}
		}()
	}
	_, _ = io.Copy(io.Discard, os.NewFile(3, "inherited"))
}

// fillUp writes to all that it may write to.
func fillUp(try func(string, error)) {
	try("write 10 GB", fill("/tmp/", 10<<30))
	try("write 10 GB to shared memory", fill("/dev/shm/", 10<<30))
	try("write 10 GB to the folder of sockets", fill(os.Getenv("SOCKETS")+"/", 10<<30))
	var err error
	for i := 0; i < 100_000 && err == nil; i++ {
		err = os.Mkdir(fmt.Sprintf("/tmp/d%d", i), 0o700)
	}
	try("make 100,000 folders", err)
}

// fill writes files into a folder until that fails, and takes them away again.
func fill(folder string, bytes int) (err error) {
	block := make([]byte, 1<<20)
	var files []string
	for i := 0; err == nil && bytes > 0; i++ {
		files = append(files, fmt.Sprintf("%sfill%d", folder, i))
		var f *os.File
		if f, err = os.Create(files[i]); err != nil {
			break
		}
		for n := 0; n < 16 && err == nil; n++ {
			_, err = f.Write(block)
			bytes -= len(block)
		}
		f.Close()
	}
	for _, f := range files {
		os.Remove(f)
	}
	return err
}

// started is an attacker that runs until the test ends.
type started struct {
	seen
	process *Process
	pid     int
	sockets string
}

// run starts the attacker as p says.
func run(t *testing.T, p *Process, environment ...string) *started {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("/tmp", "confinement")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	if err := os.Chmod(home, 0o711); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(home, "program", "attacker")
	p.Sockets = filepath.Join(home, "sockets")
	for _, dir := range []string{filepath.Dir(program), p.Sockets} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(exec.Command("cp", exe, program).Run(), os.Chmod(program, 0o755), os.Lchown(p.Sockets, p.User, p.User)); err != nil {
		t.Fatal(err)
	}
	p.Path, p.Hostname, p.Timeout = program, "attacker", time.Minute
	p.Env = append([]string{"ATTACK=1", "SOCKETS=" + p.Sockets, "PATH=/usr/bin:/bin"}, environment...)
	if p.Folders != nil {
		p.Folders.Staging = home
		p.Folders.Visible = append(p.Folders.Visible, Visible{From: program, At: program})
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	end, inherited, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Stdout, p.Stderr, p.Inherited = in, os.Stderr, end
	p.Enter = func(int) error { return nil }
	p.Check = func(pid int) error {
		exe, err := os.Stat(procOf(pid) + "/exe")
		if err != nil {
			return err
		}
		want, err := os.Stat(program)
		if err == nil && !os.SameFile(exe, want) {
			err = errors.New("another program is executed")
		}
		return err
	}
	begun, ended := make(chan error, 1), make(chan struct{})
	s := &started{process: p}
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		cmd, err := p.Start()
		if err == nil {
			s.pid = cmd.Process.Pid
		}
		begun <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	err = <-begun
	in.Close()
	end.Close()
	t.Cleanup(func() {
		inherited.Close()
		<-ended
		out.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(out).Decode(&s.seen); err != nil {
		t.Fatalf("it says nothing: %v", err)
	}
	return s
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("namespaces and users of processes need root")
	}
}

const attacker = 61000

// may are the attempts that are no attack.
var may = map[string]bool{"unix socket": true, "scratch": true, "listen": true}

// TestWalls lets a process with all walls attack them.
func TestWalls(t *testing.T) {
	needRoot(t)
	secret := filepath.Join(t.TempDir(), "ca.key")
	// A file that everybody may read, were it in sight.
	if err := errors.Join(os.WriteFile(secret, []byte("secret"), 0o644), os.Chmod(filepath.Dir(secret), 0o755)); err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	abstract, err := net.Listen("unix", "@pintle-confinement-"+strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	environment := []string{"SECRET=" + secret, "LOOPBACK=" + tcp.Addr().String(), "ABSTRACT=" + abstract.Addr().String()}
	t.Run("all", func(t *testing.T) {
		s := run(t, &Process{User: attacker, Processes: 1000, Folders: &Folders{}}, environment...)
		for what, err := range s.Attempts {
			if (err == "") != may[what] {
				t.Errorf("%s: %q", what, err)
			}
		}
		for what, want := range map[string]string{"clone3": "not implemented", "a call that no table knows": "not implemented", "a call of the x32 table": "not implemented",
			"internet socket": "not supported", "new user namespace": "not permitted", "mount": "not permitted", "write to its root": "read-only",
			"read a secret": "no such file", "list the data directory": "no such file", "make 100,000 folders": "no space left", "write 10 GB": "no space left"} {
			if runtime.GOARCH == "amd64" && !strings.Contains(s.Attempts[what], want) {
				t.Errorf("%s: %q, want %q", what, s.Attempts[what], want)
			}
		}
		if s.UID != attacker || s.GID != attacker || s.PID != 1 || s.Processes != 1 || s.Hostname != "attacker" || s.Limit != ScratchBytes {
			t.Errorf("it is %+v", s.seen)
		}
		if want := "CapInh:0000000000000000 CapPrm:0000000000000000 CapEff:0000000000000000 CapBnd:0000000000000000 CapAmb:0000000000000000 NoNewPrivs:1 "; s.Capabilities != want {
			t.Errorf("rights: %s", s.Capabilities)
		}
		if s.Directory != filepath.Dir(s.process.Path) || len(s.process.Without) > 0 {
			t.Errorf("it is in %s, without %v", s.Directory, s.process.Without)
		}
		for _, f := range s.Open {
			n, target, _ := strings.Cut(f, " ")
			if n > "3" && !strings.HasPrefix(target, "anon_inode:") && !strings.HasPrefix(target, "/proc/") {
				t.Errorf("it has descriptor %s", f)
			}
		}
		sockets, err := s.process.Listening(s.pid)
		if err != nil {
			t.Fatal(err)
		}
		defer sockets.Close()
		conn, err := sockets.Dial(context.Background(), "own")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(conn); err != nil || string(text) != "hello" {
			t.Errorf("it says %q, %v", text, err)
		}
		conn.Close()
		for _, name := range []string{"link", "file", "none", "..", ".", "", "/run/x", "../own"} {
			if conn, err := sockets.Dial(context.Background(), name); err == nil {
				conn.Close()
				t.Errorf("%q is dialled", name)
			}
		}
		// The folder itself is out of sight, and empty for everybody else.
		if entries, err := os.ReadDir(s.process.Sockets); err != nil || len(entries) > 0 {
			t.Errorf("the machine sees %v, %v", entries, err)
		}
	})
	t.Run("network", func(t *testing.T) {
		s := run(t, &Process{User: attacker, Folders: &Folders{}, Network: true}, environment...)
		for what, err := range s.Attempts {
			if what == "listen at a low port" && everybodyMay(t) {
				continue
			}
			granted := what == "internet socket" || what == "socket of a family beyond 32 bits" || what == "internet 6 socket" || what == "route socket" || what == "connect to loopback" || what == "connect to an abstract socket"
			if (err == "") != (may[what] || granted) {
				t.Errorf("%s: %q", what, err)
			}
		}
	})
	t.Run("low ports", func(t *testing.T) {
		for _, user := range []int{attacker, 0} {
			s := run(t, &Process{User: user, Folders: &Folders{}, Network: true, LowPorts: true}, environment...)
			const one = "0000000000000400" // CAP_NET_BIND_SERVICE
			if want := "CapInh:" + one + " CapPrm:" + one + " CapEff:" + one + " CapBnd:" + one + " CapAmb:" + one + " NoNewPrivs:1 "; s.Capabilities != want {
				t.Errorf("rights of user %d: %s", user, s.Capabilities)
			}
			for what, err := range s.Attempts {
				if what == "listen at a low port" && err != "" {
					t.Errorf("user %d: %s: %s", user, what, err)
				}
			}
			for _, what := range []string{"packet socket", "raw socket", "netlink socket", "new user namespace", "mount", "trace itself", "bpf", "host name", "signal the kernel", "write to its root"} {
				if err, ok := s.Attempts[what]; ok && err == "" {
					t.Errorf("user %d: %s is allowed", user, what)
				}
			}
		}
		// Without the machine's network there is no such right.
		if s := run(t, &Process{User: attacker, Folders: &Folders{}, LowPorts: true}, environment...); !strings.Contains(s.Capabilities, "CapEff:0000000000000000 ") || s.Attempts["listen at a low port"] == "" {
			t.Errorf("without a network: %s", s.Capabilities)
		}
	})
	t.Run("no namespaces", func(t *testing.T) {
		s := run(t, &Process{User: attacker}, append(environment, "MACHINE=1")...)
		for _, what := range []string{"packet socket", "internet socket", "connect to loopback", "new user namespace", "new user namespace of a child", "mount", "trace itself", "io_uring", "bpf"} {
			if s.Attempts[what] == "" {
				t.Errorf("%s is allowed", what)
			}
		}
		sockets, err := s.process.Listening(s.pid)
		if err != nil {
			t.Fatal(err)
		}
		defer sockets.Close()
		conn, err := sockets.Dial(context.Background(), "own")
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		sockets.user++
		if conn, err := sockets.Dial(context.Background(), "own"); err == nil || !strings.Contains(err.Error(), "listens to it, want") {
			t.Errorf("another user's socket is dialled: %v, %v", conn, err)
		}
	})
}

// everybodyMay reports whether this machine gives its low ports to everybody.
func everybodyMay(t *testing.T) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if err != nil {
		t.Fatal(err)
	}
	from, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return err == nil && from <= 951
}

// TestLandlock: a process with the kernel's own user and no namespaces, as that of a
// kernel that is not root, reaches its programs and its folder, and nothing of the
// kernel's.
func TestLandlock(t *testing.T) {
	version := executor.LandlockVersion()
	if version == 0 {
		t.Skip("this Linux has no Landlock")
	}
	secret := filepath.Join(t.TempDir(), "ca.key")
	readable := filepath.Join(t.TempDir(), "public")
	if err := errors.Join(os.WriteFile(secret, []byte("secret"), 0o600), os.WriteFile(readable, []byte("all"), 0o600)); err != nil {
		t.Fatal(err)
	}
	abstract, err := net.Listen("unix", "@pintle-landlock-"+strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	environment := []string{"SECRET=" + secret, "ABSTRACT=" + abstract.Addr().String(), "LOOPBACK=127.0.0.1:1", "MACHINE=1"}
	since := map[string]int{"connect to an abstract socket": 6, "signal the kernel": 6}
	s := run(t, &Process{}, environment...)
	for _, what := range []string{
		"read a secret", "list the data directory", "list run", "list home", "list var", "list sys", "write to its root", "write to programs",
		"write to its own folder", "write to its executable", "write to devices", "scratch", "read the kernel's environment", "pass through the kernel's root",
		"take a file out of its place", "link to a file", "connect to an abstract socket", "signal the kernel",
	} {
		if err, ok := s.Attempts[what]; version >= since[what] && (!ok || err == "") {
			t.Errorf("%s is allowed", what)
		}
	}
	if err := s.Attempts["listen"]; err != "" {
		t.Errorf("listen: %s", err)
	}
	// What it was given it has.
	s = run(t, &Process{Readable: []string{filepath.Dir(readable), filepath.Join(t.TempDir(), "none")}}, append(environment, "SECRET="+readable)...)
	for _, what := range []string{"read a secret", "list the data directory"} {
		if err := s.Attempts[what]; err != "" {
			t.Errorf("%s, which it may: %s", what, err)
		}
	}
	if s.Attempts["take a file out of its place"] == "" {
		t.Error("it may write to what it may read")
	}
}

// BenchmarkStart is a start and the end of a process, with the walls that it has.
func BenchmarkStart(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("namespaces and users of processes need root")
	}
	sockets := b.TempDir()
	for name, p := range map[string]Process{
		"privileged": {Privileged: true},
		"filter":     {User: attacker},
		"all":        {User: attacker, Folders: &Folders{Staging: sockets}, Hostname: "true"},
	} {
		b.Run(name, func(b *testing.B) {
			runtime.LockOSThread()
			for b.Loop() {
				p.Path, p.Sockets, p.Timeout = "/usr/bin/true", sockets, time.Minute
				p.Enter = func(int) error { return nil }
				p.Check = p.Enter
				cmd, err := p.Start()
				if err != nil {
					b.Fatal(err)
				}
				if err := cmd.Wait(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
