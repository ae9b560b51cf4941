package podnat

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	nft "github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// perMessage bounds how many elements one message has, which is of 64 KiB at most.
const perMessage = 500

// Generation grows with each change of anybody to rules of nftables on this machine.
func Generation() (uint32, error) {
	conn, err := nft.New()
	if err != nil {
		return 0, explain(err)
	}
	g, err := conn.GetGen()
	if err != nil {
		return 0, explain(err)
	}
	return g.ID, nil
}

// explain says what a machine lacks that has no nftables, of the error of a question.
func explain(err error) error {
	if lacking(err) {
		return fmt.Errorf("the kernel has no nftables, by which host ports and the way out of pods are made: %w; load the module nf_tables", err)
	}
	return err
}

// lacking: no socket of netfilter, or nothing that answers a question for nftables on it,
// which is EINVAL. A transaction may have that error for other reasons.
func lacking(err error) bool {
	return errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EINVAL)
}

// sync makes a table what it has to be, and says whether it was anything else. The kernel
// takes the change whole or not at all. Elements that differ are changed alone; for anything
// else the table is made anew.
func (s *shape) sync() (changed bool, err error) {
	conn, err := nft.New(nft.AsLasting())
	if err != nil {
		return false, explain(err)
	}
	defer conn.CloseLasting()
	found, exists, sound, err := s.read(conn)
	if err != nil {
		return false, fmt.Errorf("read table %s of %s: %w", s.name, s.family.name, explain(err))
	}
	if sound {
		changed, err = s.update(conn, found)
	} else {
		changed, err = true, s.rebuild(conn, exists)
	}
	if err == nil && changed {
		err = conn.Flush()
	}
	if err != nil {
		return false, fmt.Errorf("write table %s of %s: %w", s.name, s.family.name, err)
	}
	return changed, nil
}

// remove takes a table away, if there is one.
func (s *shape) remove() (changed bool, err error) {
	conn, err := nft.New()
	var table *nft.Table
	if err == nil {
		table, err = s.find(conn)
	}
	if err != nil || table == nil {
		if lacking(err) {
			return false, nil // no table can be left
		}
		return false, err
	}
	conn.DelTable(table)
	if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return false, fmt.Errorf("delete table %s of %s: %w", s.name, s.family.name, err)
	}
	return true, nil
}

func (s *shape) find(conn *nft.Conn) (*nft.Table, error) {
	list, err := conn.ListTablesOfFamily(s.family.table)
	if err != nil {
		return nil, fmt.Errorf("list tables of %s: %w", s.family.name, err)
	}
	at := slices.IndexFunc(list, func(t *nft.Table) bool { return t.Name == s.name })
	if at < 0 {
		return nil, nil
	}
	return list[at], nil
}

// read tells the elements of the kernel's table, by map. Sound: all but elements is as it has
// to be.
func (s *shape) read(conn *nft.Conn) (found map[string]map[string]string, exists, sound bool, err error) {
	table, err := s.find(conn)
	if err != nil || table == nil {
		return nil, false, false, err
	}
	if sound, err = s.soundChains(conn); err != nil || !sound || table.Flags != 0 { // a table may be put to sleep
		return nil, true, false, err
	}
	sets, err := conn.GetSets(s.table())
	if err != nil || len(sets) != len(s.maps) {
		return nil, true, false, err
	}
	found = map[string]map[string]string{}
	for _, m := range s.maps {
		want := s.set(m)
		at := slices.IndexFunc(sets, func(is *nft.Set) bool { return is.Name == m.name })
		if at < 0 || !sets[at].IsMap || sets[at].KeyType.Name != want.KeyType.Name || sets[at].DataType.Name != want.DataType.Name {
			return nil, true, false, nil
		}
		elements, err := conn.GetSetElements(want)
		if err != nil {
			return nil, true, false, err
		}
		found[m.name] = map[string]string{}
		for _, e := range elements {
			found[m.name][string(e.Key)] = string(e.Val)
		}
	}
	return found, true, true, nil
}

// soundChains: the kernel has the chains and no other, and in each the rules of these comments.
func (s *shape) soundChains(conn *nft.Conn) (bool, error) {
	chains, err := conn.ListChainsOfTableFamily(s.family.table)
	if err != nil {
		return false, err
	}
	chains = slices.DeleteFunc(chains, func(c *nft.Chain) bool { return c.Table.Name != s.name })
	if len(chains) != len(s.chains) {
		return false, nil
	}
	for _, c := range s.chains {
		at := slices.IndexFunc(chains, func(is *nft.Chain) bool { return is.Name == c.name })
		if at < 0 || !c.like(chains[at]) {
			return false, nil
		}
		rules, err := conn.GetRules(s.table(), c.chain(s.table()))
		if err != nil {
			return false, err
		}
		if !slices.EqualFunc(rules, c.rules, func(is *nft.Rule, want rule) bool {
			return bytes.Equal(is.UserData, want.data()) && len(is.Exprs) == len(want.exprs)
		}) {
			return false, nil
		}
	}
	return true, nil
}

// rebuild makes the table anew.
func (s *shape) rebuild(conn *nft.Conn, exists bool) error {
	table := s.table()
	if exists {
		conn.DelTable(table)
	}
	conn.AddTable(table)
	for _, m := range s.maps {
		if err := conn.AddSet(s.set(m), nil); err != nil {
			return fmt.Errorf("map %s: %w", m.name, err)
		}
	}
	for _, c := range s.chains {
		conn.AddChain(c.chain(table))
	}
	for _, c := range s.chains {
		for _, r := range c.rules {
			conn.AddRule(&nft.Rule{Table: table, Chain: c.chain(table), Exprs: r.exprs, UserData: r.data()})
		}
	}
	_, err := s.update(conn, nil)
	return err
}

// update adds and deletes elements: all that go first, so that what is replaced is gone
// before it comes.
func (s *shape) update(conn *nft.Conn, found map[string]map[string]string) (changed bool, err error) {
	for _, m := range s.maps {
		var gone, come []nft.SetElement
		for _, key := range slices.Sorted(maps.Keys(found[m.name])) {
			if want, is := m.elements[key]; !is || want != found[m.name][key] {
				gone = append(gone, nft.SetElement{Key: []byte(key)})
			}
		}
		for _, key := range slices.Sorted(maps.Keys(m.elements)) {
			if have, is := found[m.name][key]; !is || have != m.elements[key] {
				come = append(come, nft.SetElement{Key: []byte(key), Val: []byte(m.elements[key])})
			}
		}
		for part := range slices.Chunk(gone, perMessage) {
			if err := conn.SetDeleteElements(s.set(m), part); err != nil {
				return false, fmt.Errorf("elements of %s: %w", m.name, err)
			}
		}
		for part := range slices.Chunk(come, perMessage) {
			if err := conn.SetAddElements(s.set(m), part); err != nil {
				return false, fmt.Errorf("elements of %s: %w", m.name, err)
			}
		}
		changed = changed || len(gone)+len(come) > 0
	}
	return changed, nil
}

// verify returns nil where the kernel's table is as it has to be, else what differs.
func (s *shape) verify() error {
	conn, err := nft.New()
	if err != nil {
		return explain(err)
	}
	found, exists, sound, err := s.read(conn)
	switch {
	case err != nil:
		return fmt.Errorf("read table %s of %s: %w", s.name, s.family.name, err)
	case !exists:
		return fmt.Errorf("there is no table %s of %s", s.name, s.family.name)
	case !sound:
		return fmt.Errorf("rules of table %s of %s are not those that were written", s.name, s.family.name)
	}
	for _, m := range s.maps {
		if !maps.Equal(found[m.name], m.elements) {
			return fmt.Errorf("map %s of table %s of %s is not as it was written", m.name, s.name, s.family.name)
		}
	}
	return nil
}
