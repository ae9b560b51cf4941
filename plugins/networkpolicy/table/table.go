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

// Name is the table's, of family inet. A program that is too large for one transaction makes
// another table of names, which takes its place.
const Name = "pintle-networkpolicy"

var names = []string{Name, Name + "-2"}

const (
	// buffer bounds a transaction, which the kernel takes in one piece, and its answers.
	buffer = 64 << 20
	// patience bounds how long the kernel may take for one.
	patience = 30 * time.Second
	// rest is how long further answers about a refused transaction are waited for.
	rest = 100 * time.Millisecond
)

// most is how large a transaction may be before a second table is filled instead, in bytes.
// Tests lower it.
var most = 16 << 20

// Table is the table on this machine. It is for one goroutine.
type Table struct {
	conn *netlink.Conn

	current    *program.Program // what the table has; nil: not known
	name       string           // of the table that packets meet; empty: none
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

// Exists says whether packets meet a table, of an earlier process for example.
func (t *Table) Exists() (bool, error) {
	name, err := t.met()
	return name != "", err
}

// met is the name of the table that packets meet; empty: none. One that was not filled to its
// end has no base chains.
func (t *Table) met() (string, error) {
	for _, name := range names {
		_, err := t.ask(message(unix.NFT_MSG_GETCHAIN, 0, text(unix.NFTA_CHAIN_TABLE, name), text(unix.NFTA_CHAIN_NAME, program.Ingress)))
		if err == nil {
			return name, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("look for table %s of nftables: %w", name, err)
		}
	}
	return "", nil
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

// Apply makes the table that of a program, in one transaction. What is too large for one fills a
// second table, which packets do not meet, in several; one more puts it in the first one's
// place. For an empty program there is no table. After an error packets meet what they met
// before, and the next Apply makes a table anew.
func (t *Table) Apply(next *program.Program) error {
	before, err := t.generationNow()
	if err != nil {
		return err
	}
	if before != t.generation {
		t.current = nil
	}
	if t.current == nil {
		if t.name, err = t.met(); err != nil {
			return err
		}
	}
	sent := uint32(0)
	w := &writer{next: next}
	pieces := func(w *writer) error {
		sent++
		return t.send(w)
	}
	if !t.write(w, pieces) {
		return nil
	}
	if w.err == nil {
		w.err = pieces(w)
	}
	if w.err != nil {
		t.current = nil
		return fmt.Errorf("change table %s of nftables: %w", Name, w.err)
	}
	t.current, t.name = next, w.table
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

// write gathers the transaction that leads to a program, and says whether there is any. What it
// needs before, pieces sends.
func (t *Table) write(w *writer, pieces func(*writer) error) bool {
	old, anew := t.current, t.current == nil
	if anew {
		old = &program.Program{}
	}
	c := program.ChangesOf(old, w.next)
	if !anew && c.None() {
		return false
	}
	if !w.next.Empty() && weigh(w.next, c) >= most {
		w.pieces = pieces
		t.second(w, anew)
		return true
	}
	if anew {
		w.remove(names...)
	}
	switch w.table = t.name; {
	case w.next.Empty():
		if !anew {
			w.remove(t.name)
		}
		w.table = ""
		return true
	case old.Empty():
		w.table = Name
		w.addTable()
	}
	w.changes(old, c)
	return true
}

// second fills a table beside the one that packets meet, and gathers what puts it in its place.
// Where packets meet none though they should, the node is closed until it is full.
func (t *Table) second(w *writer, anew bool) {
	if anew && t.name == "" {
		next := w.next
		w.next, w.table = next.Shut(), Name
		w.remove(names...)
		w.addTable()
		w.changes(&program.Program{}, program.ChangesOf(&program.Program{}, w.next))
		w.flush()
		w.next, t.name = next, Name
	}
	w.table = names[0]
	if t.name == names[0] {
		w.table = names[1]
	}
	w.remove(w.table) // an attempt that failed may have left it
	w.addTable()
	w.fill()
	w.flush()
	for _, name := range baseChains {
		w.addChain(name)
		w.addRules(name)
	}
	if t.name != "" {
		w.remove(t.name)
	}
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
