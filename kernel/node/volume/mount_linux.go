package volume

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memoryDir makes dir a tmpfs of at most size bytes (0: the kernel's default). Without root it is a plain directory
// that only the agent's user can enter.
func (m *Manager) memoryDir(dir string, size int64, perm fs.FileMode) error {
	if !m.root0 {
		return makeDir(dir, 0o700)
	}
	if err := makeDir(dir, perm); err != nil {
		return err
	}
	mounted, err := isMount(dir)
	if err != nil || mounted {
		return err
	}
	options := fmt.Sprintf("mode=%o", perm)
	if size > 0 {
		options += ",size=" + strconv.FormatInt(size, 10)
	}
	// What is in memory stays there, and is never on a disk that swaps: kernels since 6.4 can keep it from that.
	err = unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options+",noswap")
	if errors.Is(err, unix.EINVAL) {
		m.swappable.Do(func() {
			if swaps() {
				m.deps.Logger.Warn("secrets and other volumes in memory may be swapped to disk: this machine has swap, and its kernel no tmpfs without it; turn swap off")
			}
		})
		err = unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options)
	}
	if err != nil {
		return fmt.Errorf("mount tmpfs on %s: %w", dir, err)
	}
	return nil
}

// swaps tells that the machine has swap: the list of it has a line beside its head.
func swaps() bool {
	text, err := os.ReadFile("/proc/swaps")
	return err == nil && strings.Count(strings.TrimSpace(string(text)), "\n") > 0
}

// isMount compares the device of dir with its parent's: enough for the mounts made here.
func isMount(dir string) (bool, error) {
	var here, up unix.Stat_t
	if err := unix.Lstat(dir, &here); err != nil {
		return false, err
	}
	if err := unix.Lstat(filepath.Dir(dir), &up); err != nil {
		return false, err
	}
	return here.Dev != up.Dev, nil
}

// unmountBelow unmounts everything mounted at or below dir, the deepest first.
func unmountBelow(dir string) error {
	mounts, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	var errs []error
	for i := len(mounts) - 1; i >= 0; i-- {
		if err := unix.Unmount(mounts[i], unix.UMOUNT_NOFOLLOW); err != nil {
			// Busy: detach it, so that it goes when its last user goes.
			if err := unix.Unmount(mounts[i], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
				errs = append(errs, fmt.Errorf("unmount %s: %w", mounts[i], err))
			}
		}
	}
	return errors.Join(errs...)
}

// mountsBelow lists mount points at or below dir in the order in which they were mounted.
func mountsBelow(dir string) ([]string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		point := unescape(fields[4])
		if point == real || strings.HasPrefix(point, real+"/") {
			out = append(out, point)
		}
	}
	return out, lines.Err()
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// bind makes target show what the open file is.
func bind(f *os.File, target string) error {
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", target, err)
	}
	return nil
}

// openBelow names what sub is, following links as long as they stay below dir. It does not open it for anything: a pipe
// that a container made would hold the agent until somebody writes, and a device may act on being opened.
func openBelow(dir, sub string) (*os.File, error) {
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(at)
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	for range maxRaces {
		fd, err := unix.Openat2(at, sub, how)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), filepath.Join(dir, sub)), nil
		case errors.Is(err, unix.EXDEV):
			return nil, &fs.PathError{Op: "openat", Path: sub, Err: errors.New("path escapes from parent")}
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			return nil, &fs.PathError{Op: "openat", Path: sub, Err: err}
		}
	}
	return nil, &fs.PathError{Op: "openat", Path: sub, Err: errors.New("its path is being changed all the time")}
}

// maxRaces is how often openBelow looks again when something was renamed beside it.
const maxRaces = 32

// setRootGroup gives dir alone to a group. What lies in it belongs to containers that may be at work: a walk could be
// led to other files of the host by a link put in the place of a file.
func setRootGroup(dir string, gid int64) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return err
	}
	if int64(st.Gid) == gid && info.Mode()&fs.ModeSetgid != 0 {
		return nil
	}
	if err := os.Lchown(dir, -1, int(gid)); err != nil {
		return err
	}
	return os.Chmod(dir, info.Mode().Perm()|0o770|fs.ModeSetgid)
}
