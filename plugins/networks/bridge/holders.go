package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
)

// holders are the nodes that have a range, by range. They outlive restarts in a file: after one an
// older Node could else take a range by claiming it.
type holders struct {
	file string
	of   map[netip.Prefix]string
	// unwritten: the file has something else, or could not be read.
	unwritten bool
}

const (
	holdersFile = "ranges"
	// unfinished ends the name of a file that is being written.
	unfinished = ".new"
	// mostHolders bounds the file, in bytes: it has room for 10,000 nodes.
	mostHolders = 4 << 20
)

// readHolders reads the file. With an error nodes have ranges by their registration alone.
func readHolders(state string) (holders, error) {
	h := holders{file: filepath.Join(state, holdersFile)}
	info, err := os.Stat(h.file)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	var data []byte
	switch {
	case err != nil:
	case info.Size() > mostHolders:
		err = fmt.Errorf("it has %d bytes, want %d at most", info.Size(), mostHolders)
	default:
		data, err = os.ReadFile(h.file)
	}
	if err == nil {
		err = json.Unmarshal(data, &h.of)
	}
	if err != nil {
		return holders{file: h.file, unwritten: true}, fmt.Errorf("read which nodes have which ranges, %s: %w", h.file, err)
	}
	return h, nil
}

// keep takes these holders, and writes them where the file has others. After an error the next call
// writes them, though they are the same.
func (h *holders) keep(of map[netip.Prefix]string) error {
	if !h.unwritten && maps.Equal(of, h.of) {
		return nil
	}
	h.of, h.unwritten = of, true
	data, err := json.Marshal(of)
	if err == nil {
		err = writeWhole(h.file, data)
	}
	if err != nil {
		return fmt.Errorf("write which nodes have which ranges, %s: %w", h.file, err)
	}
	h.unwritten = false
	return nil
}

func (h *holders) remove() error {
	for _, file := range []string{h.file, h.file + unfinished} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove which nodes have which ranges: %w", err)
		}
	}
	return nil
}

// writeWhole replaces a file in one step. After a loss of power it has either content.
func writeWhole(path string, data []byte) error {
	f, err := os.OpenFile(path+unfinished, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
