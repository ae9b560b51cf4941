package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/networkpolicy/program"
)

const (
	// portion is how many elements one message has: its length is a number of 16 bits.
	portion = 400
	// commentSize is how much of a comment is kept, in bytes; the kernel takes 256 at most.
	commentSize = 120
)

// Types of a set's keys as the program nft names them, for who lists the table; several in
// one key have six bits each.
const (
	typeIP4      = 7
	typeIP6      = 8
	typeProtocol = 12
	typePort     = 13
	typeBits     = 6
)

// What golang.org/x/sys/unix has no names for (linux/netfilter/nf_tables.h).
const (
	setConcat     = 0x80 // NFT_SET_CONCAT
	setDescConcat = 2    // NFTA_SET_DESC_CONCAT
	listElement   = 1    // NFTA_LIST_ELEM, NFTA_SET_FIELD_LEN
)

func number(kind uint16, value uint32) netlink.Attribute {
	return netlink.Attribute{Type: kind, Data: binary.BigEndian.AppendUint32(nil, value)}
}

func text(kind uint16, value string) netlink.Attribute {
	return netlink.Attribute{Type: kind, Data: append([]byte(value), 0)}
}

// nest puts attributes into one. They are small, but for lists of elements (portion).
func nest(kind uint16, inner ...netlink.Attribute) netlink.Attribute {
	data, err := netlink.MarshalAttributes(inner)
	if err != nil {
		data = nil // the kernel refuses it
	}
	return netlink.Attribute{Type: kind | unix.NLA_F_NESTED, Data: data}
}

// header begins the data of each message: a family, a version, and for what a batch is.
func header(family byte, resource uint16) []byte {
	return []byte{family, unix.NFNETLINK_V0, byte(resource >> 8), byte(resource)}
}

func message(kind uint16, flags netlink.HeaderFlags, attributes ...netlink.Attribute) netlink.Message {
	data, err := netlink.MarshalAttributes(attributes)
	if err != nil {
		data = nil
	}
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind), Flags: netlink.Request | flags},
		Data:   append(header(unix.NFPROTO_INET, 0), data...),
	}
}

func batch(kind netlink.HeaderType) netlink.Message {
	return netlink.Message{Header: netlink.Header{Type: kind, Flags: netlink.Request}, Data: header(unix.NFPROTO_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)}
}

// writer gathers the messages of one transaction, or of several where pieces is set: then each
// is sent when it is large.
type writer struct {
	next     *program.Program
	table    string // that is changed
	messages []netlink.Message
	size     int    // of the messages, in bytes
	sets     uint32 // made so far
	err      error
	pieces   func(*writer) error // sends what was gathered; nil: all is one transaction
}

func (w *writer) add(kind uint16, flags netlink.HeaderFlags, attributes ...netlink.Attribute) {
	m := message(kind, flags, attributes...)
	w.size += headerBytes + len(m.Data)
	w.messages = append(w.messages, m)
}

// headerBytes is what a message has before its data.
const headerBytes = 16

// rest is a place where what was gathered may be sent by itself.
func (w *writer) rest() {
	if w.pieces != nil && w.size >= most {
		w.flush()
	}
}

// flush sends what was gathered, after which something else may be. After a fault nothing is.
func (w *writer) flush() {
	if w.err == nil && len(w.messages) > 0 {
		w.err = w.pieces(w)
	}
	w.messages, w.size = nil, 0
}

func (w *writer) addTable() {
	w.add(unix.NFT_MSG_NEWTABLE, netlink.Create, text(unix.NFTA_TABLE_NAME, w.table), number(unix.NFTA_TABLE_FLAGS, 0))
}

// remove deletes tables, whether they exist or not: adding one first lets the deletion find it.
func (w *writer) remove(tables ...string) {
	for _, name := range tables {
		w.add(unix.NFT_MSG_NEWTABLE, netlink.Create, text(unix.NFTA_TABLE_NAME, name), number(unix.NFTA_TABLE_FLAGS, 0))
		w.add(unix.NFT_MSG_DELTABLE, 0, text(unix.NFTA_TABLE_NAME, name))
	}
}

// baseChains are those that packets meet first.
var baseChains = []string{program.Egress, program.Ingress}

// fill gathers all of a new table but its base chains.
func (w *writer) fill() {
	chains := slices.DeleteFunc(slices.Sorted(maps.Keys(w.next.Chains)), func(name string) bool { return slices.Contains(baseChains, name) })
	for _, name := range chains {
		w.addChain(name)
		w.rest()
	}
	for _, name := range slices.Sorted(maps.Keys(w.next.Sets)) {
		w.newSet(name)
	}
	for _, name := range chains {
		w.addRules(name)
	}
}

func (w *writer) newSet(name string) {
	set := w.next.Sets[name]
	w.addSet(name, set)
	w.elements(unix.NFT_MSG_NEWSETELEM, name, set.Kind, slices.Sorted(maps.Keys(set.Elements)), set.Elements)
}

// changes gathers what leads from a program to the next.
func (w *writer) changes(old *program.Program, c *program.Changes) {
	for _, name := range c.NewChains {
		w.addChain(name)
	}
	for _, name := range c.NewSets {
		w.newSet(name)
	}
	for _, change := range c.Sets {
		before, now := old.Sets[change.Name], w.next.Sets[change.Name]
		w.elements(unix.NFT_MSG_DELSETELEM, change.Name, now.Kind, change.Gone, before.Elements)
		w.elements(unix.NFT_MSG_NEWSETELEM, change.Name, now.Kind, change.New, now.Elements)
	}
	for _, name := range c.ChangedChains {
		if _, was := old.Chains[name]; was {
			w.emptyChain(name)
		}
		w.addRules(name)
	}
	for _, name := range c.OldChains {
		w.emptyChain(name)
	}
	for _, name := range c.OldSets {
		w.add(unix.NFT_MSG_DELSET, 0, text(unix.NFTA_SET_TABLE, w.table), text(unix.NFTA_SET_NAME, name))
	}
	for _, name := range c.OldChains {
		w.add(unix.NFT_MSG_DELCHAIN, 0, text(unix.NFTA_CHAIN_TABLE, w.table), text(unix.NFTA_CHAIN_NAME, name))
	}
}

func (w *writer) addRules(chain string) {
	for i := range w.next.Chains[chain] {
		w.addRule(chain, &w.next.Chains[chain][i])
		w.rest()
	}
}

// Sizes of messages, roughly, in bytes.
const (
	ruleBytes    = 600
	elementBytes = 48
	nameBytes    = 200
)

// weigh guesses how large the messages of changes are, without making them.
func weigh(next *program.Program, c *program.Changes) int {
	n := nameBytes * (len(c.NewChains) + len(c.NewSets) + len(c.OldChains) + len(c.OldSets))
	for _, name := range c.NewSets {
		n += elementBytes * len(next.Sets[name].Elements)
	}
	for i := range c.Sets {
		n += elementBytes * (len(c.Sets[i].Gone) + len(c.Sets[i].New))
	}
	for _, name := range c.ChangedChains {
		n += ruleBytes * len(next.Chains[name])
	}
	return n
}

// addChain makes a chain without rules.
func (w *writer) addChain(name string) {
	attributes := []netlink.Attribute{text(unix.NFTA_CHAIN_TABLE, w.table), text(unix.NFTA_CHAIN_NAME, name)}
	if name == program.Egress || name == program.Ingress {
		// Behind the translation of destinations, before that of sources: what a packet is
		// from and to are pods here. What it may leave is asked before what it may enter.
		priority := uint32(0)
		if name == program.Ingress {
			priority = 1
		}
		attributes = append(attributes,
			nest(unix.NFTA_CHAIN_HOOK, number(unix.NFTA_HOOK_HOOKNUM, unix.NF_INET_FORWARD), number(unix.NFTA_HOOK_PRIORITY, priority)),
			number(unix.NFTA_CHAIN_POLICY, accept), text(unix.NFTA_CHAIN_TYPE, "filter"))
	}
	w.add(unix.NFT_MSG_NEWCHAIN, netlink.Create, attributes...)
}

func (w *writer) emptyChain(name string) {
	w.add(unix.NFT_MSG_DELRULE, 0, text(unix.NFTA_RULE_TABLE, w.table), text(unix.NFTA_RULE_CHAIN, name))
}

func (w *writer) addRule(chain string, r *program.Rule) {
	var list []netlink.Attribute
	for _, e := range expressions(chain, r) {
		data, err := expr.Marshal(unix.NFPROTO_INET, e)
		if err != nil {
			w.err = errors.Join(w.err, fmt.Errorf("rule of chain %s: %w", chain, err))
		}
		list = append(list, netlink.Attribute{Type: unix.NFTA_LIST_ELEM | unix.NLA_F_NESTED, Data: data})
	}
	attributes := []netlink.Attribute{text(unix.NFTA_RULE_TABLE, w.table), text(unix.NFTA_RULE_CHAIN, chain), nest(unix.NFTA_RULE_EXPRESSIONS, list...)}
	if r.Comment != "" {
		comment := r.Comment[:min(len(r.Comment), commentSize)] + "\x00"
		// A kind of user data, 0 for a comment, and its length.
		attributes = append(attributes, netlink.Attribute{Type: unix.NFTA_RULE_USERDATA, Data: append([]byte{0, byte(len(comment))}, comment...)})
	}
	w.add(unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append, attributes...)
}

// part is a part of a set's key.
type part struct{ kind, size uint32 }

// parts are those of the keys of a set.
func parts(s *program.Set) []part {
	address := part{typeIP4, 4}
	if s.Family == program.IP6 {
		address = part{typeIP6, 16}
	}
	switch s.Kind {
	case program.Sockets:
		return []part{address, {typeProtocol, 1}, {typePort, 2}}
	case program.Pairs:
		return []part{address, address}
	}
	return []part{address}
}

// addSet makes a set without elements.
func (w *writer) addSet(name string, s *program.Set) {
	w.sets++
	var flags, kind, length uint32
	var fields []netlink.Attribute
	list := parts(s)
	for _, p := range list {
		kind = kind<<typeBits | p.kind
		length += (p.size + 3) &^ 3
		fields = append(fields, nest(listElement, number(listElement, p.size)))
	}
	switch {
	case s.Kind == program.Ranges:
		flags = unix.NFT_SET_INTERVAL
	case s.Kind == program.Chains:
		flags = unix.NFT_SET_MAP
	case len(list) > 1:
		flags = setConcat
	}
	attributes := []netlink.Attribute{
		text(unix.NFTA_SET_TABLE, w.table), text(unix.NFTA_SET_NAME, name), number(unix.NFTA_SET_FLAGS, flags),
		number(unix.NFTA_SET_KEY_TYPE, kind), number(unix.NFTA_SET_KEY_LEN, length), number(unix.NFTA_SET_ID, w.sets),
	}
	if s.Kind == program.Chains {
		attributes = append(attributes, number(unix.NFTA_SET_DATA_TYPE, unix.NFT_DATA_VERDICT), number(unix.NFTA_SET_DATA_LEN, 0))
	}
	if len(list) > 1 {
		attributes = append(attributes, nest(unix.NFTA_SET_DESC, nest(setDescConcat, fields...)))
	}
	w.add(unix.NFT_MSG_NEWSET, netlink.Create, attributes...)
}

// elements adds or deletes elements, in portions.
func (w *writer) elements(kind uint16, set string, of program.Kind, keys []string, values map[string]string) {
	var flags netlink.HeaderFlags
	if kind == unix.NFT_MSG_NEWSETELEM {
		flags = netlink.Create
	}
	for now := range slices.Chunk(keys, portion) {
		var list []netlink.Attribute
		for _, key := range now {
			list = append(list, element(of, key, values[key])...)
		}
		w.add(kind, flags, text(unix.NFTA_SET_ELEM_LIST_TABLE, w.table), text(unix.NFTA_SET_ELEM_LIST_SET, set), nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS, list...))
		w.rest()
	}
}

// element is one element as the kernel has it: each part of a key fills whole words, and a
// range ends with the address behind it, unless it goes to the end of all.
func element(of program.Kind, key, value string) []netlink.Attribute {
	one := func(key []byte, more ...netlink.Attribute) netlink.Attribute {
		return nest(unix.NFTA_LIST_ELEM, append([]netlink.Attribute{nest(unix.NFTA_SET_ELEM_KEY, netlink.Attribute{Type: unix.NFTA_DATA_VALUE, Data: key})}, more...)...)
	}
	switch of {
	case program.Ranges:
		list := []netlink.Attribute{one([]byte(key))}
		if behind, some := following(value); some {
			list = append(list, one(behind, number(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END)))
		}
		return list
	case program.Sockets:
		n := len(key) - 3
		return []netlink.Attribute{one(append([]byte(key[:n]), key[n], 0, 0, 0, key[n+1], key[n+2], 0, 0))}
	case program.Chains:
		verdict := nest(unix.NFTA_DATA_VERDICT, number(unix.NFTA_VERDICT_CODE, jump), text(unix.NFTA_VERDICT_CHAIN, value))
		return []netlink.Attribute{one([]byte(key), nest(unix.NFTA_SET_ELEM_DATA, verdict))}
	}
	return []netlink.Attribute{one([]byte(key))}
}

// NFT_JUMP, a negative number, and NF_ACCEPT.
const (
	jump   = 1<<32 - 3
	accept = 1
)

// following is the address behind one, if there is one.
func following(address string) ([]byte, bool) {
	next := []byte(address)
	for i := len(next) - 1; i >= 0; i-- {
		if next[i]++; next[i] != 0 {
			return next, true
		}
	}
	return nil, false
}
