package modulecache

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// An entry is a head, wazero's name of the machine code, the prepared module, the
// machine code, and the HMAC of the identity and all of these.
//
//	offset  bytes
//	0       8      magic
//	8       4      length of the name
//	12      8      length of the prepared module
//	20      8      length of the machine code
const (
	magic      = "pintlem1"
	headSize   = len(magic) + 4 + 8 + 8
	maxName    = 128
	tempPrefix = ".new-"
)

var errForged = errors.New("its content is not what this kernel wrote")

// entry is what was read and found to be this kernel's.
type entry struct {
	name     string   // that wazero gives the machine code
	prepared []byte   // the module
	code     *os.File // memory that nobody can change
}

// read reads an entry and compares its HMAC.
func read(path string, key []byte, identity string) (_ *entry, err error) {
	f, err := openOwn(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := uint64(info.Size())
	if size > maxEntry || size < uint64(headSize+sha256.Size) {
		return nil, fmt.Errorf("%w: %d bytes", errForged, size)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(identity))
	mac.Write([]byte{0})
	head := make([]byte, headSize)
	if _, err := io.ReadFull(f, head); err != nil {
		return nil, err
	}
	mac.Write(head)
	named, prepared, code := uint64(binary.LittleEndian.Uint32(head[8:])), binary.LittleEndian.Uint64(head[12:]), binary.LittleEndian.Uint64(head[20:])
	// Nothing is reserved for lengths that the file does not have.
	if !bytes.HasPrefix(head, []byte(magic)) || named == 0 || named > maxName || prepared == 0 || prepared > size || code == 0 || code > size ||
		uint64(headSize+sha256.Size)+named+prepared+code != size {
		return nil, errForged
	}
	front := make([]byte, named+prepared)
	if _, err := io.ReadFull(f, front); err != nil {
		return nil, err
	}
	mac.Write(front)
	e := &entry{name: string(front[:named]), prepared: front[named:]}
	if e.code, err = memory(f, int(code), mac); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			e.code.Close()
		}
	}()
	sum := make([]byte, sha256.Size)
	if _, err = io.ReadFull(f, sum); err != nil {
		return nil, err
	}
	if !hmac.Equal(sum, mac.Sum(nil)) {
		return nil, errForged
	}
	return e, nil
}

// openOwn opens a file of this user or root that nobody else can write to.
func openOwn(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		owner := int(info.Sys().(*syscall.Stat_t).Uid)
		switch {
		case !info.Mode().IsRegular():
			err = errors.New("it is no regular file")
		case owner != 0 && owner != os.Geteuid():
			err = fmt.Errorf("it belongs to user %d", owner)
		case info.Mode().Perm()&0o022 != 0:
			err = fmt.Errorf("others can write to it (mode %04o)", info.Mode().Perm())
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// memory reads the next bytes into memory that stays as it is, and into mac.
func memory(from io.Reader, size int, mac io.Writer) (_ *os.File, err error) {
	fd, err := unix.MemfdCreate("pintle-module", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "compiled module")
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err = f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	view, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	_, err = io.ReadFull(from, view)
	if err == nil {
		_, err = mac.Write(view)
	}
	if err = errors.Join(err, unix.Munmap(view)); err != nil {
		return nil, err
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return f, nil
}

// write writes an entry in one step. The machine code is in a file.
func write(path string, key []byte, identity, name string, prepared []byte, code string) (err error) {
	from, err := openOwn(code)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if len(name) > maxName {
		return fmt.Errorf("module cache: name of %d bytes, at most %d", len(name), maxName)
	}
	to, err := os.CreateTemp(filepath.Dir(path), tempPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(to.Name())
		}
	}()
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(identity))
	mac.Write([]byte{0})
	head := []byte(magic)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(name)))
	head = binary.LittleEndian.AppendUint64(head, uint64(len(prepared)))
	head = binary.LittleEndian.AppendUint64(head, uint64(info.Size()))
	out := io.MultiWriter(to, mac)
	for _, part := range [][]byte{head, []byte(name), prepared} {
		if _, err = out.Write(part); err != nil {
			return errors.Join(err, to.Close())
		}
	}
	if _, err = io.CopyN(out, from, info.Size()); err == nil {
		_, err = to.Write(mac.Sum(nil))
	}
	if err = errors.Join(err, to.Sync(), to.Close()); err != nil {
		return err
	}
	return os.Rename(to.Name(), path)
}

// trimTo removes entries, the one that was used longest ago first, until what is
// left has at most so many bytes. last stays.
func trimTo(dir string, entries []fs.DirEntry, last string, most int64) error {
	var infos []fs.FileInfo
	var total int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), entrySuffix) {
			infos = append(infos, info)
			total += info.Size()
		}
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for _, info := range infos {
		if total <= most {
			return nil
		}
		if info.Name() == last {
			continue
		}
		if err := os.Remove(filepath.Join(dir, info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= info.Size()
	}
	return nil
}
