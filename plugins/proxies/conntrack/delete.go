package conntrack

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Family is a family of addresses, by the number that the kernel has for it.
type Family uint8

// The families.
const (
	IPv4 Family = unix.AF_INET
	IPv6 Family = unix.AF_INET6
)

// String is the name of the family, as metrics have it.
func (f Family) String() string {
	if f == IPv6 {
		return "IPv6"
	}
	return "IPv4"
}

const (
	// portion is how many flows are kept to be deleted: some four megabytes.
	portion = 10_000
	// passes bounds how often the table is listed for one deletion.
	passes = 16
	// subsystem is that of connections among those of netfilter.
	subsystem = 1 // NFNL_SUBSYS_CTNETLINK
)

// ErrMore says that flows are left, which the next deletion finds: the kernel's table changed
// faster than it could be read, or had too many of them.
var ErrMore = errors.New("there are more")

// Delete deletes the flows of a family that match, and returns how many. A flow that went by
// itself meanwhile is no fault.
func Delete(family Family, match func(Flow) bool) (int, error) {
	s, err := open()
	if err != nil {
		return 0, fmt.Errorf("list tracked flows: %w", err)
	}
	defer s.close()
	deleted := 0
	for range passes {
		list, whole, err := s.matching(family, match)
		if err != nil {
			return deleted, fmt.Errorf("list tracked flows: %w", err)
		}
		for _, raw := range list {
			switch err := s.remove(family, raw); {
			case err == nil:
				deleted++
			case !errors.Is(err, fs.ErrNotExist):
				return deleted, fmt.Errorf("delete a tracked flow: %w", err)
			}
		}
		if whole {
			return deleted, nil
		}
	}
	return deleted, fmt.Errorf("delete tracked flows: %w", ErrMore)
}

// socket is one to the kernel's table. A deletion uses one for all that it asks: when one of them
// is closed, the kernel waits many times as long as it takes to delete a flow.
type socket struct{ *nl.SocketHandle }

func open() (socket, error) {
	s, err := nl.Subscribe(unix.NETLINK_NETFILTER)
	if err != nil {
		return socket{}, err
	}
	if err := errors.Join(s.SetSendTimeout(&nl.SocketTimeoutTv), s.SetReceiveTimeout(&nl.SocketTimeoutTv)); err != nil {
		s.Close()
		return socket{}, err
	}
	return socket{&nl.SocketHandle{Socket: s}}, nil
}

func (s socket) close() { s.Close() }

func (s socket) request(family Family, operation, flags int, data []byte) *nl.NetlinkRequest {
	r := request(family, operation, flags, data)
	r.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: s.SocketHandle}
	return r
}

// matching lists the flows that match, a portion at most, and says whether these are all.
func (s socket) matching(family Family, match func(Flow) bool) (list [][]byte, whole bool, err error) {
	whole = true
	err = s.request(family, nl.IPCTNL_MSG_CT_GET, unix.NLM_F_DUMP, nil).ExecuteIter(unix.NETLINK_NETFILTER, 0, func(message []byte) bool {
		flow, ok := parse(message)
		if !ok || !match(flow) {
			return true
		}
		if len(list) == portion {
			whole = false
			return false
		}
		list = append(list, slices.Clone(message))
		return true
	})
	if errors.Is(err, nl.ErrDumpInterrupted) || errors.Is(err, unix.EINTR) {
		return list, false, nil // it is read again
	}
	return list, whole, err
}

// remove deletes one flow as it was listed: its addresses and its number name it.
func (s socket) remove(family Family, raw []byte) error {
	_, err := s.request(family, nl.IPCTNL_MSG_CT_DELETE, unix.NLM_F_ACK, raw[headerSize:]).Execute(unix.NETLINK_NETFILTER, 0)
	return err
}

func request(family Family, operation, flags int, data []byte) *nl.NetlinkRequest {
	r := nl.NewNetlinkRequest(subsystem<<8|operation, flags)
	r.AddData(&nl.Nfgenmsg{NfgenFamily: uint8(family), Version: nl.NFNETLINK_V0})
	if data != nil {
		r.AddRawData(data)
	}
	return r
}
