package confinement

import (
	"path/filepath"

	"pintle.dev/pintle/kernel/plugin/confinement/executor"
)

// landlock is what a process reaches of files where Linux has Landlock. In a root file
// system of its own that is all that is there, to read; otherwise what would be there,
// so that processes of one user do not share its files.
func (p *Process) landlock(view *executor.View, path string) *executor.Landlock {
	l := &executor.Landlock{Use: devices, Network: p.Network}
	if view != nil {
		l.Read = []string{"/"}
		for _, s := range view.Scratch {
			l.Write = append(l.Write, s.At)
		}
		return l
	}
	l.Read = append(append(l.Read, programs...), settings...)
	if p.Network {
		l.Read = append(l.Read, names...)
	}
	// Of other processes it sees what everybody may: they are not in its domain.
	l.Read = append(append(l.Read, "/proc", path), p.Readable...)
	if p.Folders != nil {
		for _, v := range p.Folders.Visible {
			l.Read = append(l.Read, v.From)
		}
	}
	if p.Sockets != "" {
		l.Write = []string{filepath.Clean(p.Sockets)}
	}
	return l
}
