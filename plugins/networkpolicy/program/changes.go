package program

import (
	"maps"
	"slices"
)

// SetChange is what has to be done to a set that stays.
type SetChange struct {
	Name      string
	Gone, New []string // keys; one whose value changed is in both
}

// Changes lead from one program to another. Each list is in order of names.
type Changes struct {
	NewChains     []string // made first, and empty
	NewSets       []string // made with their elements
	Sets          []SetChange
	ChangedChains []string // their rules are replaced; new ones are among them
	OldChains     []string // emptied first; they go last, since maps and each other lead to them
	OldSets       []string
}

// None says that there is nothing to do.
func (c *Changes) None() bool {
	return len(c.NewChains)+len(c.NewSets)+len(c.Sets)+len(c.ChangedChains)+len(c.OldChains)+len(c.OldSets) == 0
}

// ChangesOf are those from one program to the next.
func ChangesOf(old, next *Program) *Changes {
	c := &Changes{}
	for _, name := range slices.Sorted(maps.Keys(next.Chains)) {
		rules, was := old.Chains[name]
		if !was {
			c.NewChains = append(c.NewChains, name)
		}
		if !was || !same(rules, next.Chains[name]) {
			c.ChangedChains = append(c.ChangedChains, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(next.Sets)) {
		before, now := old.Sets[name], next.Sets[name]
		if before == nil {
			c.NewSets = append(c.NewSets, name)
			continue
		}
		if before == now {
			continue
		}
		change := SetChange{Name: name}
		for key, value := range before.Elements {
			if to, stays := now.Elements[key]; !stays || to != value {
				change.Gone = append(change.Gone, key)
			}
		}
		for key, value := range now.Elements {
			if from, was := before.Elements[key]; !was || from != value {
				change.New = append(change.New, key)
			}
		}
		if len(change.Gone)+len(change.New) > 0 {
			slices.Sort(change.Gone)
			slices.Sort(change.New)
			c.Sets = append(c.Sets, change)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.Chains)) {
		if _, stays := next.Chains[name]; !stays {
			c.OldChains = append(c.OldChains, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.Sets)) {
		if next.Sets[name] == nil {
			c.OldSets = append(c.OldSets, name)
		}
	}
	return c
}

// same compares rules, at once where they are the same list.
func same(a, b []Rule) bool {
	if len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] {
		return true
	}
	return slices.Equal(a, b)
}
