package process

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/kernel/node/cgroup"
	"pintle.dev/pintle/kernel/plugin/confinement"
	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk/transport"
)

const (
	maxArtifactBytes = 1 << 30
	// A script is run from a copy of its files, within these bounds.
	maxCopyBytes, maxCopyFiles = 256 << 20, 20_000
	// killFirst makes the operating system end a plugin rather than the kernel
	// when memory is short.
	killFirst = "500"
)

// Constraints are what a process is held to.
type Constraints struct {
	Limits     Ceilings
	Privileged bool
	Network    bool               // it has the machine's
	LowPorts   bool               // it may listen at those below 1024
	User       int                // its user id and group id; 0: the kernel's
	Shared     string             // where its folder is, when it has a user of its own
	Scratch    *Scratch           // where its folder is otherwise
	Public     string             // a folder that every process may read
	Cgroup     string             // below which it has its own; empty: none
	Waived     confinement.Waived // what may be missing of all that
	Groups     *atomic.Uint64     // numbers cgroups
	Apart      string             // behind the bundle's name where names are to differ from another host's
}

// Folder is where the sockets of a bundle with a user of its own lie: its user
// may enter, nobody else, and it may not put anything there.
func (c *Constraints) Folder(bundle string) (string, error) {
	shared := c.Shared
	if shared == "" {
		var err error
		if shared, err = c.Scratch.folder(); err != nil {
			return "", fmt.Errorf("plugin bundle %s: %w", bundle, err)
		}
	}
	sum := sha256.Sum256([]byte(bundle + c.Apart))
	dir := filepath.Join(shared, hex.EncodeToString(sum[:4]))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("plugin bundle %s: %w", bundle, err)
	}
	if err := errors.Join(os.Lchown(dir, 0, c.User), os.Chmod(dir, 0o750)); err != nil {
		return "", fmt.Errorf("plugin bundle %s: %w", bundle, err)
	}
	return dir, nil
}

// Scratch is a folder of the host's own, made when it is asked for.
type Scratch struct {
	mu  sync.Mutex
	dir string
}

func (s *Scratch) folder() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir != "" {
		return s.dir, nil
	}
	dir, err := os.MkdirTemp("", "pintle-plugins-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", err
	}
	s.dir = dir
	return dir, nil
}

func (s *Scratch) Remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
		s.dir = ""
	}
}

// executable is the file of a process and how it is named for exec.
type executable struct {
	path   string
	script bool
	// outside is a script where the process has no root file system of its own.
	outside string
	file    *os.File // what is executed when the process may not pass through the path's folders
	copied  string   // a folder to remove afterwards
	within  string   // where the executable is in it
	sees    []string // folders beside those of all processes, at their own paths
}

// root is the folder of the bundle.
func (e *executable) root() string {
	return strings.TrimSuffix(e.path, string(filepath.Separator)+e.within)
}

func (e *executable) close() {
	if e.file != nil {
		e.file.Close()
	}
	if e.copied != "" {
		os.RemoveAll(e.copied)
	}
}

// prepare finds out how the process can execute its file. What its bundle has beside
// the executable, and a script, which its interpreter opens again, are copied to
// where nobody else can change them, and compared with their digests meanwhile.
func (c *Constraints) prepare(b *manifest.Bundle, a *manifest.Artifact, digest, path, folder string) (_ *executable, err error) {
	e := &executable{path: path, within: filepath.FromSlash(a.Path)}
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
	case !c.Privileged && (e.script || len(b.Manifest.Artifacts.Files) > 0):
		f.Close()
		if e.copied, err = os.MkdirTemp(folder, "bundle-"); err != nil {
			return nil, err
		}
		pinned := slices.Clone(b.Manifest.Artifacts.Files)
		if e.script {
			pinned = append(pinned, manifest.Artifact{Path: a.Path, Digest: digest})
		}
		if err := copyPinned(b.Directory, pinned, e.copied); err != nil {
			return nil, err
		}
		e.outside = filepath.Join(e.copied, filepath.FromSlash(a.Path))
		if !e.script {
			// What is executed is compared while it is held; here is its place.
			here := e.outside
			if e.outside = ""; c.User > 0 && !passable(path) {
				e.file, err = os.Open(path)
			}
			return e, errors.Join(err, foldersOf(e.copied, a.Path), os.WriteFile(here, nil, 0o644))
		}
	case c.User > 0 && !passable(path):
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

// copyPinned copies the files that a manifest pins, readable for everyone, and
// compares what it copies with their digests.
func copyPinned(from string, pinned []manifest.Artifact, to string) error {
	root, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer root.Close()
	if len(pinned) > maxCopyFiles {
		return fmt.Errorf("%w: %d files are pinned, at most %d", guest.ErrPermanent, len(pinned), maxCopyFiles)
	}
	if err := os.Chmod(to, 0o755); err != nil {
		return err
	}
	left := int64(maxCopyBytes)
	for _, a := range pinned {
		if err := foldersOf(to, a.Path); err != nil {
			return err
		}
		n, err := copyOne(root, a, filepath.Join(to, filepath.FromSlash(a.Path)), left)
		if left -= n; err != nil {
			return fmt.Errorf("copy %s: %w", filepath.Join(from, a.Path), err)
		}
	}
	return nil
}

// foldersOf makes the folders of a path below another, for everyone to pass through
// whatever the kernel's mask is.
func foldersOf(below, path string) error {
	parts := strings.Split(path, "/")
	for _, part := range parts[:len(parts)-1] {
		below = filepath.Join(below, part)
		if err := os.Mkdir(below, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := os.Chmod(below, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func copyOne(root *os.Root, a manifest.Artifact, to string, most int64) (int64, error) {
	in, err := root.OpenFile(filepath.FromSlash(a.Path), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%w: it is no file", guest.ErrPermanent)
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return 0, nil // two keys of the manifest name it, with one digest
	}
	if err != nil {
		return 0, err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum), io.LimitReader(in, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("%w: the bundle has more than %d MiB", guest.ErrPermanent, maxCopyBytes>>20)
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); err == nil && got != a.Digest {
		err = wrongDigest{got}
	}
	return n, errors.Join(err, out.Chmod(0o644|info.Mode().Perm()&0o111), out.Close())
}

// process is the one to start. env has what go-plugin tells it, sockets is where it
// may listen, base is the folder that has its own sockets and those of the API.
func (c *Constraints) process(name string, e *executable, digest string, env []string, files *processFiles, base, sockets string) *confinement.Process {
	p := &confinement.Process{
		Privileged: c.Privileged, Path: e.path, Outside: e.outside, Opened: e.file, Env: env,
		Stdout: files.stdout, Stderr: files.stderr, Inherited: files.questions,
		Hostname: name, User: c.User, Processes: c.Limits.PIDs, Network: c.Network, LowPorts: c.LowPorts, Waived: c.Waived, Sockets: sockets,
	}
	if files.questions != nil {
		p.Env = append(slices.Clip(env), transport.QuestionsVariable+"=3")
	}
	if os.Geteuid() == 0 && !c.Privileged {
		p.Folders = &confinement.Folders{Staging: sockets, Visible: []confinement.Visible{{From: base, At: base}}}
		see := func(from, at string) {
			p.Folders.Visible = append(p.Folders.Visible, confinement.Visible{From: from, At: at})
		}
		if c.Public != "" {
			see(c.Public, c.Public)
		}
		if e.copied != "" {
			see(e.copied, e.root())
		}
		if !e.script {
			see(e.path, e.path)
		}
		for _, dir := range e.sees {
			see(dir, dir)
		}
	}
	if p.Folders == nil && !c.Privileged {
		// Files of the machine's /tmp are those of others.
		p.Env = append(slices.Clip(p.Env), "TMPDIR="+sockets)
		p.Readable = append(append(p.Readable, base), e.sees...)
		if c.Public != "" {
			p.Readable = append(p.Readable, c.Public)
		}
		switch {
		case e.copied != "":
			p.Readable = append(p.Readable, e.copied)
		case digest != "":
			p.Readable = append(p.Readable, filepath.Dir(e.path))
		}
	}
	p.Check = func(pid int) error {
		switch {
		case digest == "":
			return nil // it is a part of the kernel
		case e.script && e.copied != "":
			return nil // it was compared when it was copied
		case e.script:
			return matches(e.path, digest)
		}
		return matches("/proc/"+strconv.Itoa(pid)+"/exe", digest)
	}
	return p
}

// enter puts a process that has not begun into its cgroup.
func (c *Constraints) enter(pid int, group *cgroup.Group) error {
	if group != nil {
		if err := group.Add(pid); err != nil {
			return confinement.Missing(confinement.Cgroup, err)
		}
	}
	if !c.Privileged {
		_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(killFirst), 0)
	}
	return nil
}

// explain makes an error of a start say what is wrong with the file.
func (c *Constraints) explain(e *executable, digest string, err error) error {
	if err == nil || errors.Is(err, manifest.ErrDigest) || errors.Is(err, confinement.ErrMissing) {
		return err
	}
	// A damaged file is often one that cannot be executed at all.
	if digest == "" {
		return err
	}
	if other := matches(e.path, digest); errors.Is(other, manifest.ErrDigest) {
		return other
	}
	if errors.Is(err, unix.EACCES) && c.User > 0 {
		err = fmt.Errorf("%w: user %d may not execute it; chmod o+rx it", err, c.User)
	}
	return err
}

// matches compares a file with a digest.
func matches(path, want string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > maxArtifactBytes {
		return fmt.Errorf("%w: %s is no file of at most %d MiB", guest.ErrPermanent, path, maxArtifactBytes>>20)
	}
	got, err := manifest.FileDigest(path)
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

func (wrongDigest) Unwrap() error { return manifest.ErrDigest }

// written reports whether another user could write a script's file or folder.
func written(path string) error {
	for _, p := range []string{path, filepath.Dir(path)} {
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return fmt.Errorf("%w: %s is a script that other users can change: chown and chmod o-w %s", guest.ErrPermanent, strings.TrimSuffix(path, "/"), p)
		}
	}
	return nil
}
