//go:build linux && (amd64 || arm64)

package crash

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	pageSize   = 4096
	sectorSize = 512
)

// content is a file's bytes; a page that is missing is zero.
type content struct {
	pages map[int64][]byte
}

func (c *content) page(n int64) []byte {
	if p := c.pages[n]; p != nil {
		return p
	}
	return zeroes[:]
}

var zeroes [pageSize]byte

// inode tells files apart, also after a rename, and one that got the number of a deleted one.
type inode struct {
	number uint64
	born   int64
}

type name struct {
	inode
	size int64
}

// disk knows what of a directory would survive a power cut.
type disk struct {
	dir string

	mu sync.Mutex
	// durable is each file's content at its last sync, names the directory at the last sync of any.
	durable map[inode]*content
	names   map[string]name
	// synced are the files opened with O_DSYNC: what was written to them is durable.
	synced map[string]bool
	syncs  int
}

// newDisk takes what is in dir now for durable.
func newDisk(dir string) (*disk, error) {
	d := &disk{dir: dir, durable: map[inode]*content{}, synced: map[string]bool{}}
	names, err := listNames(dir)
	if err != nil {
		return nil, err
	}
	d.names = names
	for file, n := range names {
		if d.durable[n.inode], err = readContent(filepath.Join(dir, file), nil); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func listNames(dir string) (map[string]name, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make(map[string]name, len(entries))
	for _, e := range entries {
		if e.IsDir() {
			continue // tables that the store has set aside, whose content is elsewhere as well
		}
		n, err := lookup(filepath.Join(dir, e.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		names[e.Name()] = n
	}
	return names, nil
}

func lookup(path string) (name, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_SIZE|unix.STATX_BTIME, &st); err != nil {
		return name{}, fmt.Errorf("%s: %w", path, err)
	}
	return name{inode: inode{st.Ino, st.Btime.Sec*1e9 + int64(st.Btime.Nsec)}, size: int64(st.Size)}, nil
}

// readContent reads the data of a file, not its holes, over what is known of it.
func readContent(path string, known *content) (*content, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if known == nil {
		known = &content{pages: map[int64][]byte{}}
	}
	seen := make(map[int64]bool, len(known.pages))
	buffer := make([]byte, 256*pageSize)
	for at := int64(0); ; {
		start, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		end, err := unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for at = start &^ (pageSize - 1); at < end; {
			n, err := f.ReadAt(buffer[:min(int64(len(buffer)), (end-at+pageSize-1)&^(pageSize-1))], at)
			if err != nil && !errors.Is(err, io.EOF) || n == 0 {
				if n == 0 {
					return known, nil // it shrank meanwhile
				}
				return nil, err
			}
			for off := 0; off < n; off += pageSize {
				var page [pageSize]byte
				copy(page[:], buffer[off:min(off+pageSize, n)])
				number := (at + int64(off)) / pageSize
				seen[number] = true
				if old := known.pages[number]; old == nil {
					if page != zeroes {
						known.pages[number] = bytes.Clone(page[:])
					}
				} else if !bytes.Equal(old, page[:]) {
					copy(old, page[:])
				}
			}
			at += int64(n)
			if n%pageSize != 0 {
				break
			}
		}
		at = end
	}
	maps.DeleteFunc(known.pages, func(n int64, _ []byte) bool { return !seen[n] })
	return known, nil
}

// sync notes a sync that a process is about to do.
func (d *disk) sync(c syncCall) error {
	if c.nr == unix.SYS_OPENAT {
		path, err := c.opened()
		if err == nil && filepath.Dir(path) == d.dir {
			d.mu.Lock()
			d.synced[filepath.Base(path)] = true
			d.mu.Unlock()
		}
		return err
	}
	path, err := c.path()
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncs++
	if path != d.dir && !strings.HasPrefix(path, d.dir+"/") {
		return nil
	}
	if d.names, err = listNames(d.dir); err != nil {
		return err
	}
	if path == d.dir {
		return nil
	}
	n, err := lookup(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // deleted while it was mapped
	}
	if err != nil {
		return err
	}
	if d.durable[n.inode], err = readContent(path, d.durable[n.inode]); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// path is the file that a sync is of.
func (c syncCall) path() (string, error) {
	if c.fd >= 0 {
		return os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", c.pid, c.fd))
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", c.pid))
	if err != nil {
		return "", err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		from, rest, _ := strings.Cut(line, "-")
		to, _, _ := strings.Cut(rest, " ")
		start, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil && start <= c.address && c.address < end {
			_, path, found := strings.Cut(line, "/")
			if !found {
				return "", nil
			}
			return "/" + strings.TrimSuffix(path, " (deleted)"), nil
		}
	}
	return "", fmt.Errorf("no mapping at %x", c.address)
}

// cut says what a power cut takes.
type cut struct {
	// lose is the part of unsynced pages that are lost, tear of those that are kept the part of which is torn.
	lose, tear float64
	// names: creations, deletions and sizes since the last sync are lost.
	names bool
}

func (c cut) String() string {
	return fmt.Sprintf("power cut, %.0f %% of unsynced pages lost, %.0f %% torn, unsynced names lost: %v", 100*c.lose, 100*c.tear, c.names)
}

// image writes into the empty directory to what a power cut leaves. The process must be dead.
func (d *disk) image(to string, c cut, rng *rand.Rand) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, err := listNames(d.dir)
	if err != nil {
		return err
	}
	current := map[inode]*content{}
	for file, n := range now {
		if current[n.inode], err = readContent(filepath.Join(d.dir, file), nil); err != nil {
			return err
		}
	}
	names := now
	if c.names {
		names = d.names
	}
	for _, file := range slices.Sorted(maps.Keys(names)) {
		if file == "LOCK" {
			continue
		}
		n := names[file]
		if d.synced[file] {
			d.durable[n.inode] = current[n.inode]
		}
		if err := writeImage(filepath.Join(to, file), n.size, d.durable[n.inode], current[n.inode], c, rng); err != nil {
			return err
		}
	}
	return nil
}

func writeImage(path string, size int64, durable, current *content, c cut, rng *rand.Rand) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if durable == nil {
		durable = &content{}
	}
	if current == nil {
		current = durable
	}
	numbers := map[int64]bool{}
	for n := range durable.pages {
		numbers[n] = true
	}
	for n := range current.pages {
		numbers[n] = true
	}
	for _, n := range slices.Sorted(maps.Keys(numbers)) {
		before, after := durable.page(n), current.page(n)
		page := slices.Clone(after)
		if !bytes.Equal(before, after) {
			switch {
			case rng.Float64() < c.lose:
				copy(page, before)
			case rng.Float64() < c.tear:
				sectors := rng.IntN(pageSize / sectorSize)
				copy(page[sectors*sectorSize:], before[sectors*sectorSize:])
			}
		}
		if room := size - n*pageSize; room > 0 {
			if _, err := f.WriteAt(page[:min(room, pageSize)], n*pageSize); err != nil {
				return err
			}
		}
	}
	return f.Truncate(size)
}

// copyAll writes into the empty directory to what a killed process leaves: everything.
func (d *disk) copyAll(to string) error { return d.image(to, cut{}, rand.New(rand.NewPCG(0, 0))) }
