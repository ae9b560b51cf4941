package storage

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// podSpecs has the encodings of specs that pods without a node have: a binding sets the node's name in one instead of
// going through the whole spec, which is most of a pod. Pods of one controller have one between them: of their specs
// nothing differs but the name that was drawn for the last volume, which is that of the service account's token.
type podSpecs struct {
	envelope *envelope

	mu sync.Mutex
	// encodings are by what they are where the volume's name is blank.
	encodings map[string]*specEncoding
	// of are those of the pods, by revision.
	of map[uint64]podSpec
	// blank and holes are memory to work with.
	blank []byte
	holes []int
}

// podSpec is how one pod's spec is encoded.
type podSpec struct {
	*specEncoding
	name string // of the last volume
}

// specEncoding is the encoding of specs that differ in the name of their last volume alone, if in anything.
type specEncoding struct {
	// text is blank in the holes, where the volume's name stands, which is volume bytes long.
	text   string
	holes  []int
	volume int
	// nodeName is where the node's name stands, which is empty.
	nodeName int
	// made tells that it was compared with what the spec's own encoder gives, right that this was equal.
	made, right bool
}

const (
	// maxSpecEncodings bounds the encodings that are remembered, and maxSpecEncoding their size.
	maxSpecEncodings = 512
	maxSpecEncoding  = 16 << 10
	// maxPodSpecs bounds the pods of which the encoding is known.
	maxPodSpecs = 1 << 17
)

// The fields of a pod, and of its spec: a name that is empty is encoded too.
const (
	tagSpec     = 0x12
	tagStatus   = 0x1a
	tagNodeName = 0x52
)

// newPodSpecs is nil for what is no pod, or not stored in protobuf.
func newPodSpecs(empty runtime.Object, e *envelope) *podSpecs {
	if _, ok := empty.(*corev1.Pod); !ok || e == nil {
		return nil
	}
	return &podSpecs{envelope: e, encodings: map[string]*specEncoding{}, of: map[uint64]podSpec{}}
}

// note remembers how the spec of obj is encoded, which is what decoding data gave, or what data is the encoding of.
func (p *podSpecs) note(revision uint64, obj runtime.Object, data []byte) {
	if p == nil {
		return
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName != "" {
		return
	}
	spec, ok := p.specOf(data)
	if !ok || len(spec) > maxSpecEncoding {
		return
	}
	volume := ""
	if n := len(pod.Spec.Volumes); n > 0 {
		volume = pod.Spec.Volumes[n-1].Name
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.of[revision]; ok {
		return
	}
	p.blankOut(spec, volume)
	known, ok := p.encodings[string(p.blank)]
	if !ok {
		// Of most that come once there is no second.
		if len(p.encodings) >= maxSpecEncodings {
			clear(p.encodings)
		}
		text := string(p.blank)
		p.encodings[text] = &specEncoding{text: text, holes: slices.Clone(p.holes), volume: len(volume)}
		return
	}
	if !known.made {
		known.make(&pod.Spec, volume)
	}
	if !known.right || known.volume != len(volume) || !slices.Equal(known.holes, p.holes) {
		return
	}
	if len(p.of) >= maxPodSpecs {
		for old := range p.of {
			delete(p.of, old)
			break
		}
	}
	p.of[revision] = podSpec{known, volume}
}

// specOf finds the spec in the encoding of a pod.
func (p *podSpecs) specOf(data []byte) (spec []byte, ok bool) {
	object, ok := bytes.CutPrefix(data, p.envelope.head)
	if !ok {
		return nil, false
	}
	if object, ok = field(object, tagObject, len(tail)); !ok {
		return nil, false
	}
	if _, object, ok = firstField(object, tagMetadata); !ok {
		return nil, false
	}
	spec, _, ok = firstField(object, tagSpec)
	return spec, ok
}

// blankOut makes p.blank of spec, where there is nothing in the p.holes that volume stood in.
func (p *podSpecs) blankOut(spec []byte, volume string) {
	p.blank, p.holes = append(p.blank[:0], spec...), p.holes[:0]
	if volume == "" {
		return
	}
	name := []byte(volume)
	for from := 0; ; {
		at := bytes.Index(p.blank[from:], name)
		if at < 0 {
			return
		}
		p.holes = append(p.holes, from+at)
		clear(p.blank[from+at : from+at+len(name)])
		from += at + len(name)
	}
}

// make finds out whether e is how specs like this one are encoded. It is if one is that differs from it in the volume's
// name and the node's: then what was taken for the volume's name in the encoding is that and no other text that is equal,
// the node's name stands where it was found, and the encoding says all that the spec does, the defaults too.
func (e *specEncoding) make(spec *corev1.PodSpec, volume string) {
	e.made = true
	if !e.findNodeName() {
		return
	}
	other, node := otherName(volume), strings.Repeat("n", 200)
	changed := spec.DeepCopy()
	changed.NodeName = node
	if n := len(changed.Volumes); n > 0 {
		changed.Volumes[n-1].Name = other
	}
	rename := func(c *corev1.Container) {
		for i := range c.VolumeMounts {
			if c.VolumeMounts[i].Name == volume {
				c.VolumeMounts[i].Name = other
			}
		}
	}
	for i := range changed.InitContainers {
		rename(&changed.InitContainers[i])
	}
	for i := range changed.Containers {
		rename(&changed.Containers[i])
	}
	want, err := changed.Marshal()
	if err != nil {
		return
	}
	got := make([]byte, e.size(node))
	e.put(got, other, node)
	e.right = bytes.Equal(got, want)
}

// otherName is a name that has each of its letters different from those of name.
func otherName(name string) string {
	other := []byte(name)
	for i := range other {
		other[i] ^= 1
	}
	return string(other)
}

// findNodeName goes through the spec's fields for the node's name, which has to be empty.
func (e *specEncoding) findNodeName() bool {
	const varint, lengthDelimited, last = 0, 2, tagNodeName >> 3
	text := []byte(e.text)
	for at := 0; at < len(text); {
		tag, n := binary.Uvarint(text[at:])
		if n <= 0 || tag>>3 > last {
			return false
		}
		value, m := binary.Uvarint(text[at+n:])
		if m <= 0 {
			return false
		}
		switch {
		case tag == tagNodeName:
			e.nodeName = at
			return value == 0
		case tag&7 == varint:
			value = 0
		case tag&7 != lengthDelimited, value > uint64(len(text)-at-n-m):
			return false
		}
		at += n + m + int(value)
	}
	return false
}

// size is that of a spec with a node's name.
func (e *specEncoding) size(node string) int {
	return len(e.text) - 1 + uvarintLen(len(node)) + len(node)
}

// put puts a spec with the names of a volume and of a node into bytes of its size.
func (e *specEncoding) put(into []byte, volume, node string) {
	copy(into, e.text[:e.nodeName])
	behind := e.nodeName + 1
	into[e.nodeName] = tagNodeName
	behind += binary.PutUvarint(into[behind:], uint64(len(node)))
	behind += copy(into[behind:], node)
	copy(into[behind:], e.text[e.nodeName+2:])
	for _, hole := range e.holes {
		if hole > e.nodeName {
			hole += behind - (e.nodeName + 2)
		}
		copy(into[hole:], volume)
	}
}

// encodeBound encodes a pod as envelope.encode does, if the encoding of its spec is known: as the one of the revision,
// which had no node's name. It forgets that one.
func (p *podSpecs) encodeBound(revision uint64, obj runtime.Object) (data []byte, ok bool) {
	if p == nil {
		return nil, false
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, false
	}
	spec, ok := p.take(revision)
	if !ok {
		return nil, false
	}
	head, node := p.envelope.head, pod.Spec.NodeName
	metadata, status, middle := pod.ObjectMeta.Size(), pod.Status.Size(), spec.size(node)
	size := 3 + uvarintLen(metadata) + metadata + uvarintLen(middle) + middle + uvarintLen(status) + status
	data = make([]byte, len(head)+1+uvarintLen(size)+size+len(tail))
	at := copy(data, head)
	open := func(tag byte, size int) []byte {
		data[at] = tag
		at += 1 + binary.PutUvarint(data[at+1:], uint64(size))
		return data[at : at+size]
	}
	open(tagObject, size)
	if n, err := pod.ObjectMeta.MarshalToSizedBuffer(open(tagMetadata, metadata)); err != nil || n != metadata {
		return nil, false
	}
	at += metadata
	spec.put(open(tagSpec, middle), spec.name, node)
	at += middle
	if n, err := pod.Status.MarshalToSizedBuffer(open(tagStatus, status)); err != nil || n != status {
		return nil, false
	}
	at += status
	copy(data[at:], tail)
	return data, true
}

func (p *podSpecs) take(revision uint64) (podSpec, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	spec, ok := p.of[revision]
	if ok {
		delete(p.of, revision)
	}
	return spec, ok
}

// forget drops what is known of a revision that is there no more.
func (p *podSpecs) forget(revision uint64) {
	if p != nil && revision != 0 {
		p.take(revision)
	}
}

// clear drops everything.
func (p *podSpecs) clear() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.encodings, p.of, p.blank = map[string]*specEncoding{}, map[uint64]podSpec{}, nil
}
