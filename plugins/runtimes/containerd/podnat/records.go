package podnat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Port is one host port of a sandbox.
type Port struct {
	HostPort      uint16     `json:"hostPort"`
	HostIP        netip.Addr `json:"hostIP,omitzero"` // the zero one and 0.0.0.0: all of the machine
	ContainerPort uint16     `json:"containerPort"`
	Protocol      string     `json:"protocol"` // tcp, udp or sctp
}

// Sandbox is what a sandbox's record holds.
type Sandbox struct {
	ID        string `json:"id"`
	Interface string `json:"interface"`
	// Addresses are the sandbox's, one a family at most, each with its network's length.
	Addresses []netip.Prefix `json:"addresses"`
	Ports     []Port         `json:"ports"`
	// Ended: its ports go. The record stays until that is done, so that it can be done again.
	Ended bool `json:"ended,omitempty"`
	// Turn grows with each record of a folder: of two sandboxes that want one port the later
	// has it.
	Turn uint64 `json:"turn"`
}

const (
	// maxRecord bounds the size of a record that is read, in bytes.
	maxRecord = 1 << 20
	// maxPorts bounds how many host ports one sandbox has.
	maxPorts = 4096
)

// names are those that a container runtime may give sandboxes and interfaces: they become
// part of a file's name.
var names = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$`)

// check returns what no record may have.
func (s *Sandbox) check() error {
	if !names.MatchString(s.ID) || !names.MatchString(s.Interface) {
		return fmt.Errorf("sandbox %q with interface %q: want letters, digits, dots, dashes and underscores", s.ID, s.Interface)
	}
	if len(s.Ports) > maxPorts {
		return fmt.Errorf("sandbox %s: %d host ports; %d are allowed", s.ID, len(s.Ports), maxPorts)
	}
	for _, a := range s.Addresses {
		if !a.IsValid() || a.Addr().Is4In6() || a.Addr().Zone() != "" {
			return fmt.Errorf("sandbox %s: %q is no address of a sandbox", s.ID, a)
		}
	}
	for _, p := range s.Ports {
		if _, known := protocols[p.Protocol]; !known {
			return fmt.Errorf("sandbox %s: protocol %q of host port %d is not tcp, udp or sctp", s.ID, p.Protocol, p.HostPort)
		}
		if p.HostPort == 0 || p.ContainerPort == 0 {
			return fmt.Errorf("sandbox %s: host port %d to port %d: want ports from 1 to 65535", s.ID, p.HostPort, p.ContainerPort)
		}
		if p.HostIP.Is4In6() || p.HostIP.Zone() != "" {
			return fmt.Errorf("sandbox %s: host port %d: %s is no address of a machine", s.ID, p.HostPort, p.HostIP)
		}
	}
	return nil
}

// records is a folder of records.
type records string

// separator stands between a sandbox's id and its interface; neither has it.
const separator, suffix = ",", ".json"

func (r records) file(id, iface string) string {
	return filepath.Join(string(r), id+separator+iface+suffix)
}

// lock makes the folder and keeps others out of it until the returned function is called.
func (r records) lock() (func(), error) {
	if err := os.MkdirAll(string(r), 0o700); err != nil {
		return nil, fmt.Errorf("records of host ports: %w", err)
	}
	return lockIn(string(r))
}

func lockIn(dir string) (func(), error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the records of host ports: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the records of host ports: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil // the lock ends with the file
}

// all reads the folder, the oldest first. Damaged names files that are no record, which an
// ended machine may leave: they count for nothing.
func (r records) all() (list []Sandbox, damaged []error, err error) {
	entries, err := os.ReadDir(string(r))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("records of host ports: %w", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), suffix) {
			continue // the lock, and what is being written
		}
		s, err := r.read(filepath.Join(string(r), e.Name()))
		if err != nil {
			damaged = append(damaged, fmt.Errorf("record of host ports %s: %w", e.Name(), err))
			continue
		}
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b Sandbox) int {
		switch {
		case a.Turn < b.Turn:
			return -1
		case a.Turn > b.Turn:
			return 1
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list, damaged, nil
}

func (r records) read(file string) (s Sandbox, err error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return s, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return s, err
	}
	if len(data) > maxRecord {
		return s, fmt.Errorf("is larger than %d bytes", maxRecord)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, err
	}
	if err := s.check(); err != nil {
		return s, err
	}
	if r.file(s.ID, s.Interface) != file {
		return s, fmt.Errorf("is that of sandbox %s", s.ID)
	}
	return s, nil
}

// write writes a record whole or not at all.
func (r records) write(s Sandbox) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("record host ports of sandbox %s: %w", s.ID, err)
	}
	file := r.file(s.ID, s.Interface)
	if err := os.WriteFile(file+".tmp", data, 0o600); err != nil {
		return fmt.Errorf("record host ports of sandbox %s: %w", s.ID, err)
	}
	if err := os.Rename(file+".tmp", file); err != nil {
		return fmt.Errorf("record host ports of sandbox %s: %w", s.ID, err)
	}
	return nil
}
