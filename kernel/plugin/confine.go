package plugin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/kernel/node/cgroup"
	"pintle.dev/pintle/sdk/transport"
)

const (
	maxArtifactBytes = 1 << 30
	// maxOpenFiles of a process that is not privileged.
	maxOpenFiles = 4096
	// A script is run from a copy of its folder, within these bounds.
	maxCopyBytes, maxCopyFiles = 256 << 20, 20_000
	// killFirst makes the operating system end a plugin rather than the kernel
	// when memory is short.
	killFirst = "500"
)

// confinement is what a process is held to.
type confinement struct {
	limits     ceilings
	privileged bool
	user       int    // its user id and group id; 0: the kernel's
	shared     string // where its folder is, when it has a user of its own
	cgroup     string // below which it has its own; empty: none
	launcher   *launcher
	groups     *atomic.Uint64 // numbers cgroups
	apart      string         // behind the bundle's name where names are to differ from another host's
}

// confinement is what the processes of a bundle are held to.
func (h *Host) confinement(cfg *Config, bc *BundleConfig, m *Manifest, limits ceilings) (confinement, error) {
	// Hosts of one process share what numbers and names come from.
	root := h
	if h.deps.Beside != nil {
		root = h.deps.Beside
	}
	c := confinement{limits: limits, shared: cfg.SharedDirectory, cgroup: cfg.Cgroup, launcher: &h.launcher, groups: &root.groups, apart: h.deps.Apart}
	if m.Privileged {
		if !bc.Privileged {
			return c, fmt.Errorf("plugin bundle %s: its manifest asks for the kernel's own user and rights (privileged); grant them with privileged: true beside its name in plugins.bundles, or leave it out", bc.Name)
		}
		c.privileged = true
		return c, nil
	}
	if os.Geteuid() == 0 && cfg.SharedDirectory != "" {
		root.users.configure(cfg.Users)
		var err error
		c.user, err = root.users.of(bc.Name + c.apart)
		return c, err
	}
	return c, nil
}

// folder is where the sockets of a bundle with a user of its own lie: its user
// may enter, nobody else, and it may not put anything there.
func (c *confinement) folder(bundle string) (string, error) {
	sum := sha256.Sum256([]byte(bundle + c.apart))
	dir := filepath.Join(c.shared, hex.EncodeToString(sum[:4]))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("plugin bundle %s: %w", bundle, err)
	}
	if err := errors.Join(os.Lchown(dir, 0, c.user), os.Chmod(dir, 0o750)); err != nil {
		return "", fmt.Errorf("plugin bundle %s: %w", bundle, err)
	}
	return dir, nil
}

// executable is the file of a process and how it is named for exec.
type executable struct {
	path   string
	script bool
	file   *os.File // what is executed when the process may not pass through the path's folders
	copied string   // a folder to remove afterwards
}

func (e *executable) close() {
	if e.file != nil {
		e.file.Close()
	}
	if e.copied != "" {
		os.RemoveAll(e.copied)
	}
}

// prepare finds out how the process can execute its file. A script, which its
// interpreter opens again, is copied to where nobody else can change it.
func (c *confinement) prepare(path, folder string) (_ *executable, err error) {
	e := &executable{path: path}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	head := make([]byte, 2)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		f.Close()
		return nil, err
	}
	e.script = string(head[:n]) == "#!"
	switch {
	case e.script && c.user > 0:
		f.Close()
		if e.copied, err = os.MkdirTemp(folder, "bundle-"); err != nil {
			return nil, err
		}
		if err := copyFolder(filepath.Dir(path), e.copied); err != nil {
			return nil, err
		}
		e.path = filepath.Join(e.copied, filepath.Base(path))
	case c.user > 0 && !passable(path):
		e.file = f
	default:
		f.Close()
		if e.script {
			return e, written(path)
		}
	}
	return e, nil
}

// passable reports whether every user may execute the file at a path.
func passable(path string) bool {
	for ; ; path = filepath.Dir(path) {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if path == filepath.Dir(path) {
			return true
		}
	}
}

// copyFolder copies the plain files of a folder, readable for everyone.
func copyFolder(from, to string) error {
	files, left := 0, int64(maxCopyBytes)
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == compiledDirectory {
				return filepath.SkipDir
			}
			target := filepath.Join(to, name)
			if err := os.MkdirAll(target, 0o755); err != nil {
				return err
			}
			return os.Chmod(target, 0o755)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer in.Close()
		info, err := in.Stat()
		if err != nil {
			return err
		}
		out, err := os.OpenFile(filepath.Join(to, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		n, err := io.Copy(out, io.LimitReader(in, left+1))
		if files, left = files+1, left-n; err == nil && (left < 0 || files > maxCopyFiles) {
			err = fmt.Errorf("larger than %d MiB or %d files", maxCopyBytes>>20, maxCopyFiles)
		}
		return errors.Join(err, out.Chmod(0o644|info.Mode().Perm()&0o111), out.Close())
	})
	if err != nil {
		return fmt.Errorf("copy folder %s: %w", from, err)
	}
	return nil
}

// start starts the process, held until it is confined and its file was compared
// with the digest. env has what go-plugin puts into the environment.
func (c *confinement) start(e *executable, digest string, env []string, files *processFiles, group *cgroup.Group) (*exec.Cmd, error) {
	if e.script {
		if err := matches(e.path, digest); err != nil {
			return nil, err
		}
	}
	own := os.Geteuid() == 0 && !c.privileged
	make := func(ownPIDs bool) *exec.Cmd {
		cmd := &exec.Cmd{
			Path: e.path, Args: []string{e.path}, Env: env, Dir: filepath.Dir(e.path), Stdout: files.stdout, Stderr: files.stderr,
			SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
		}
		if e.file != nil {
			cmd.Path, cmd.Dir, cmd.ExtraFiles = "/proc/self/fd/3", "/", []*os.File{e.file}
		}
		if files.questions != nil {
			cmd.ExtraFiles = append(cmd.ExtraFiles, files.questions)
			cmd.Env = append(slices.Clip(env), fmt.Sprintf("%s=%d", transport.QuestionsVariable, 2+len(cmd.ExtraFiles)))
		}
		if c.user > 0 {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(c.user), Gid: uint32(c.user)}
		}
		if ownPIDs {
			cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC
		}
		return cmd
	}
	check := func(pid int) error {
		if !e.script {
			if err := matches("/proc/"+strconv.Itoa(pid)+"/exe", digest); err != nil {
				return err
			}
		}
		return c.confine(pid, group)
	}
	var cmd *exec.Cmd
	launch := func() (err error) {
		cmd, err = startHeld(make, own, check)
		return err
	}
	var err error
	if c.privileged {
		err = launch()
	} else {
		err = c.launcher.do(launch)
	}
	if err != nil && !errors.Is(err, ErrDigest) {
		// A damaged file is often one that cannot be executed at all.
		if other := matches(e.path, digest); errors.Is(other, ErrDigest) {
			return nil, other
		}
		if errors.Is(err, unix.EACCES) && c.user > 0 {
			err = fmt.Errorf("%w: user %d may not execute it; chmod o+rx it", err, c.user)
		}
	}
	return cmd, err
}

// confine sets what holds for the process and all that it will start.
func (c *confinement) confine(pid int, group *cgroup.Group) error {
	if group != nil {
		if err := group.Add(pid); err != nil {
			return err
		}
	}
	if c.privileged {
		return nil
	}
	limits := map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: maxOpenFiles}
	if c.user > 0 && c.limits.pids > 0 {
		limits[unix.RLIMIT_NPROC] = uint64(c.limits.pids)
	}
	for what, n := range limits {
		var now unix.Rlimit
		if err := unix.Prlimit(pid, what, nil, &now); err == nil {
			n = min(n, now.Max)
		}
		// A machine may keep us from limiting another user's processes: its
		// cgroup holds it then.
		if err := unix.Prlimit(pid, what, &unix.Rlimit{Cur: n, Max: n}, nil); err != nil && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("limit %d of process %d: %w", what, pid, err)
		}
	}
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(killFirst), 0)
	return nil
}

// matches compares a file with a digest.
func matches(path, want string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > maxArtifactBytes {
		return fmt.Errorf("%w: %s is no file of at most %d MiB", errPermanent, path, maxArtifactBytes>>20)
	}
	got, err := FileDigest(path)
	if err != nil {
		return err
	}
	if got != want {
		return wrongDigest{got}
	}
	return nil
}

// wrongDigest is the digest that a file has.
type wrongDigest struct{ got string }

func (w wrongDigest) Error() string { return "digest " + w.got }
func (wrongDigest) Unwrap() error   { return ErrDigest }

// written reports whether another user could write a script's file or folder.
func written(path string) error {
	for _, p := range []string{path, filepath.Dir(path)} {
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return fmt.Errorf("%w: %s is a script that other users can change: chown and chmod o-w %s", errPermanent, strings.TrimSuffix(path, "/"), p)
		}
	}
	return nil
}
