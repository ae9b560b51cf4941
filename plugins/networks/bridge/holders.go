package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
)

// holders are the nodes that have a range, by range. They outlive restarts in a file: after one an
// older Node could else take a range by claiming it.
type holders struct {
	file string
	of   map[netip.Prefix]string
}

const (
	holdersFile = "ranges"
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
		return holders{file: h.file}, fmt.Errorf("read which nodes have which ranges, %s: %w", h.file, err)
	}
	return h, nil
}

// write replaces the file by these holders.
func (h holders) write() error {
	data, err := json.Marshal(h.of)
	if err == nil {
		err = os.WriteFile(h.file+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(h.file+".new", h.file)
	}
	if err != nil {
		return fmt.Errorf("write which nodes have which ranges, %s: %w", h.file, err)
	}
	return nil
}

func (h holders) remove() error {
	if err := os.Remove(h.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove which nodes have which ranges: %w", err)
	}
	return nil
}
