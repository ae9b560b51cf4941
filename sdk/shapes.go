package sdk

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// maxShapes and maxWords bound what a replica remembers to share it; with more it
// begins anew.
const (
	maxShapes = 4096
	maxWords  = 16384
	// maxWord: longer texts are seldom the same; nor are maps of more than maxShared bytes.
	maxWord, maxShared = 256, 1024
)

// podShapes lets pods share what they have in common: those of one workload differ
// in little but their names, and a module's memory is mostly pods.
type podShapes struct {
	seed   maphash.Seed
	shapes map[uint64][]podShape
	count  int
	maps   labelMaps
}

type podShape struct {
	encoded []byte // without what is a pod's own
	pod     *Pod
}

// own reports whether a field of an encoded Pod is each pod's own.
func own(tag uint32) bool { return tag == 2 || tag == 3 || tag == 6 || tag == 21 }

// pod decodes a Pod. What it shares with others must not be changed.
func (s *podShapes) pod(data []byte) (*Pod, error) {
	if s.shapes == nil || s.count >= maxShapes {
		*s = podShapes{seed: maphash.MakeSeed(), shapes: map[uint64][]podShape{}}
	}
	key, same := s.split(data)
	var of *Pod
	for _, shape := range s.shapes[key] {
		if same(shape.encoded) {
			of = shape.pod
		}
	}
	if of == nil {
		of = &Pod{}
		if err := decodePod(data, of); err != nil {
			return nil, err
		}
		s.maps.share(of)
		var rest []byte
		walkShape(data, func(part []byte) bool { rest = append(rest, part...); return true })
		s.shapes[key] = append(s.shapes[key], podShape{rest, of})
		s.count++
		return of, nil
	}
	pod := &Pod{}
	*pod = *of
	pod.Name, pod.UID, pod.NodeName, pod.StartTimeUnix = "", "", "", 0
	return pod, decodeOwn(data, pod)
}

// decodeOwn decodes what is a pod's own.
func decodeOwn(data []byte, pod *Pod) error {
	return message(data, "pod", func(f *field) error {
		switch f.tag {
		case 2:
			pod.Name = f.text()
		case 3:
			pod.UID = f.text()
		case 6:
			pod.NodeName = f.text()
		case 21:
			pod.StartTimeUnix = int64(f.number)
		}
		return nil
	})
}

// split returns the hash of a pod without what is its own, and a comparison with
// another's bytes.
func (s *podShapes) split(data []byte) (key uint64, same func(encoded []byte) bool) {
	var h maphash.Hash
	h.SetSeed(s.seed)
	walkShape(data, func(part []byte) bool { h.Write(part); return true })
	return h.Sum64(), func(encoded []byte) bool {
		equal := true
		walkShape(data, func(part []byte) bool {
			if equal = bytes.HasPrefix(encoded, part); equal {
				encoded = encoded[len(part):]
			}
			return equal
		})
		return equal && len(encoded) == 0
	}
}

// walkShape visits the parts of an encoded pod between what is its own.
func walkShape(data []byte, visit func(part []byte) bool) {
	w, f := wire{data: data}, field{}
	start := 0
	for {
		at := len(data) - len(w.data)
		more := w.next(&f)
		if more && !own(f.tag) {
			continue
		}
		if at > start && !visit(data[start:at]) || !more {
			return
		}
		start = len(data) - len(w.data)
	}
}

// labelMaps lets pods of different shapes share maps and texts that are equal.
type labelMaps struct {
	words words
	known map[string]map[string]string // by their entries, in order
	keys  []string                     // scratch
	entry []byte                       // scratch
}

// share replaces what a pod has in common with others by theirs.
func (l *labelMaps) share(p *Pod) {
	p.Labels, p.Annotations, p.NodeSelector = l.mapOf(p.Labels), l.mapOf(p.Annotations), l.mapOf(p.NodeSelector)
	p.Namespace, p.SchedulerName = l.words.word(p.Namespace), l.words.word(p.SchedulerName)
	for _, containers := range [][]Container{p.Containers, p.InitContainers} {
		for i := range containers {
			containers[i].Name, containers[i].Image = l.words.word(containers[i].Name), l.words.word(containers[i].Image)
		}
	}
}

func (l *labelMaps) mapOf(m map[string]string) map[string]string {
	if len(m) == 0 {
		return m
	}
	l.keys = l.keys[:0]
	for k := range m {
		l.keys = append(l.keys, k)
	}
	slices.Sort(l.keys)
	l.entry = l.entry[:0]
	for _, k := range l.keys {
		for _, text := range [...]string{k, m[k]} {
			l.entry = append(binary.AppendUvarint(l.entry, uint64(len(text))), text...)
		}
	}
	clear(l.keys)
	if len(l.entry) > maxShared {
		return l.words.mapOf(m)
	}
	if known, ok := l.known[string(l.entry)]; ok {
		return known
	}
	if l.known == nil || len(l.known) >= maxShapes {
		l.known = map[string]map[string]string{}
	}
	m = l.words.mapOf(m)
	l.known[string(l.entry)] = m
	return m
}

// words lets equal texts share their bytes.
type words struct{ known map[string]string }

func (w *words) word(s string) string {
	if len(s) > maxWord {
		return s
	}
	if known, ok := w.known[s]; ok {
		return known
	}
	if w.known == nil || len(w.known) >= maxWords {
		w.known = map[string]string{}
	}
	w.known[s] = s
	return s
}

// mapOf returns a map of shared texts, of the size that it needs.
func (w *words) mapOf(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[w.word(k)] = w.word(v)
	}
	return out
}
