package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/networkpolicy/program"
)

// Name is the table's, of family inet.
const Name = "pintle-networkpolicy"

const (
	// buffer bounds a transaction, which the kernel takes in one piece, and its answers.
	buffer = 64 << 20
	// patience bounds how long the kernel may take for one.
	patience = 30 * time.Second
	// rest is how long further answers about a refused transaction are waited for.
	rest = 100 * time.Millisecond
)

// most is how large a transaction may be before it is made in pieces, in bytes. One chain is
// not divided. Tests lower it.
var most = 16 << 20

// Table is the table on this machine. It is for one goroutine.
type Table struct {
	conn *netlink.Conn

	current    *program.Program // what the table has; nil: not known
	generation uint32           // of the machine's rules after the last change here
}

// Open opens a connection to the packet filter; it changes nothing. The error says what is
// missing: the right, or the kernel's support.
func Open() (*Table, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("open a netlink connection to nftables: %w", err)
	}
	t := &Table{conn: conn}
	err = errors.Join(conn.SetWriteBuffer(buffer), conn.SetReadBuffer(buffer))
	if err == nil {
		_, err = t.generationNow()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("use nftables, which needs CAP_NET_ADMIN and a kernel with nf_tables: %w", err), conn.Close())
	}
	return t, nil
}

// Close ends the connection; the table stays as it is.
func (t *Table) Close() error { return t.conn.Close() }

// Exists says whether the table is there, of an earlier process for example.
func (t *Table) Exists() (bool, error) {
	m := message(unix.NFT_MSG_GETTABLE, 0, text(unix.NFTA_TABLE_NAME, Name))
	_, err := t.ask(m)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for table %s of nftables: %w", Name, err)
	}
	return true, nil
}

// Disturbed says that somebody changed rules of the machine since the last change here.
// Which ones the kernel does not say, so Apply replaces the table then.
func (t *Table) Disturbed() (bool, error) {
	now, err := t.generationNow()
	if err != nil || t.current != nil && now == t.generation {
		return false, err
	}
	t.current = nil
	return true, nil
}

// Apply makes the table that of a program, in one transaction, if that is not too large. For an
// empty one there is no table. After an error of one transaction the table is as it was; of
// several, what it has is not known, and the next Apply makes it anew.
func (t *Table) Apply(next *program.Program) error {
	before, err := t.generationNow()
	if err != nil {
		return err
	}
	if before != t.generation {
		t.current = nil
	}
	sent := uint32(0)
	w := &writer{next: next}
	pieces := func(w *writer) error {
		sent++
		return t.send(w)
	}
	if !t.write(w, next, pieces) {
		return nil
	}
	if w.err == nil && len(w.messages) > 0 {
		w.err = pieces(w)
	}
	if w.err != nil {
		t.current = nil
		return fmt.Errorf("change table %s of nftables: %w", Name, w.err)
	}
	t.current = next
	after, err := t.generationNow()
	if err != nil {
		return err
	}
	// Another one's change between is looked at by Disturbed.
	t.generation = after
	if after != before+sent {
		t.generation = before
	}
	return nil
}

// write gathers what leads to a program, and says whether there is anything. What is too large
// for one transaction is sent in pieces from then on; a table that is made anew so lets no new
// connection of pods pass meanwhile.
func (t *Table) write(w *writer, next *program.Program, pieces func(*writer) error) bool {
	old := t.current
	switch {
	case old == nil:
		// Adding it first lets the deletion find one.
		w.addTable()
		w.add(unix.NFT_MSG_DELTABLE, 0, text(unix.NFTA_TABLE_NAME, Name))
		old = &program.Program{}
	case next.Empty() && old.Empty():
		return false
	}
	if next.Empty() {
		if t.current != nil {
			w.add(unix.NFT_MSG_DELTABLE, 0, text(unix.NFTA_TABLE_NAME, Name))
		}
		return true
	}
	c := program.ChangesOf(old, next)
	if c.None() {
		return false
	}
	if old.Empty() {
		w.addTable()
	}
	if weigh(next, c) >= most {
		w.pieces = pieces
		if old.Empty() {
			shut := next.Shut()
			w.next = shut
			w.changes(old, program.ChangesOf(old, shut))
			w.flush()
			w.next, old = next, shut
			c = program.ChangesOf(shut, next)
		}
	}
	w.changes(old, c)
	return true
}

// send sends one transaction. The kernel carries it out, or not, before it answers.
func (t *Table) send(w *writer) error {
	if w.err != nil {
		return w.err
	}
	messages := append(append([]netlink.Message{batch(unix.NFNL_MSG_BATCH_BEGIN)}, w.messages...), batch(unix.NFNL_MSG_BATCH_END))
	// The last one is answered in any case, others where they are refused.
	messages[len(messages)-2].Header.Flags |= netlink.Acknowledge
	if err := t.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := t.conn.SendMessages(messages); err != nil {
		return err
	}
	var refused error
	for {
		_, err := t.conn.Receive()
		if err == nil {
			return refused
		}
		if refused != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			return refused // the last one was refused, too
		}
		if refused == nil {
			refused = err
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return refused
		}
		// All answers are there by now.
		if err := t.conn.SetReadDeadline(time.Now().Add(rest)); err != nil {
			return refused
		}
	}
}

// Remove takes the table away.
func (t *Table) Remove() error {
	t.current = nil
	return t.Apply(&program.Program{})
}

// ask sends one question, which changes nothing.
func (t *Table) ask(m netlink.Message) ([]netlink.Message, error) {
	if err := t.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	return t.conn.Execute(m)
}

// generationNow is the number that the kernel counts changes of its rules by.
func (t *Table) generationNow() (uint32, error) {
	answers, err := t.ask(message(unix.NFT_MSG_GETGEN, 0))
	if err != nil {
		return 0, fmt.Errorf("read the generation of nftables: %w", err)
	}
	for _, answer := range answers {
		if len(answer.Data) < 4 {
			continue
		}
		attributes, err := netlink.NewAttributeDecoder(answer.Data[4:])
		if err != nil {
			return 0, fmt.Errorf("read the generation of nftables: %w", err)
		}
		attributes.ByteOrder = binary.BigEndian
		for attributes.Next() {
			if attributes.Type() == unix.NFTA_GEN_ID {
				return attributes.Uint32(), attributes.Err()
			}
		}
	}
	return 0, fmt.Errorf("read the generation of nftables: no number in the answer: %w", fs.ErrInvalid)
}
