package api

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers of fields in the envelope of Kubernetes' protobuf, in objects and in their
// metadata.
const (
	envelopeRaw             = 2
	objectMetadata          = 1
	metadataResourceVersion = 6
)

// envelopeMagic is what the encoding of an object begins with.
var envelopeMagic = []byte("k8s\x00")

// writeAnswer makes of an object's encoding as it is stored, in protobuf and without a
// resource version, the one with it: encoding the object anew would give the same.
// False: it is not of that form, and nothing is written.
func writeAnswer(out *bytes.Buffer, stored []byte, version string) bool {
	envelope, ok := bytes.CutPrefix(stored, envelopeMagic)
	if !ok {
		return false
	}
	raw, ok := fieldOf(envelope, envelopeRaw)
	if !ok {
		return false
	}
	object := envelope[raw.value:raw.end]
	meta, ok := fieldOf(object, objectMetadata)
	if !ok {
		return false
	}
	metadata := object[meta.value:meta.end]
	old, ok := fieldOf(metadata, metadataResourceVersion)
	if !ok {
		return false
	}
	field := appendField(make([]byte, 0, 32), metadataResourceVersion, len(version))
	field = append(field, version...)
	metaLen := len(metadata) - (old.end - old.start) + len(field)
	metaHead := appendField(make([]byte, 0, 12), objectMetadata, metaLen)
	rawLen := len(object) - (meta.end - meta.start) + len(metaHead) + metaLen
	rawHead := appendField(make([]byte, 0, 12), envelopeRaw, rawLen)
	out.Grow(len(stored) + len(field) + len(metaHead) + len(rawHead))
	for _, part := range [][]byte{
		envelopeMagic, envelope[:raw.start], rawHead,
		object[:meta.start], metaHead,
		metadata[:old.start], field, metadata[old.end:],
		object[meta.end:], envelope[raw.end:],
	} {
		out.Write(part)
	}
	return true
}

// part is where a field is: its tag, its value, and what follows.
type part struct{ start, value, end int }

// fieldOf finds a field of bytes, which occurs once.
func fieldOf(message []byte, number protowire.Number) (p part, ok bool) {
	for p.start < len(message) {
		n, kind, tag := protowire.ConsumeTag(message[p.start:])
		if tag < 0 {
			return p, false
		}
		size := protowire.ConsumeFieldValue(n, kind, message[p.start+tag:])
		if size < 0 {
			return p, false
		}
		p.end = p.start + tag + size
		if n != number {
			p.start = p.end
			continue
		}
		if kind != protowire.BytesType {
			return p, false
		}
		_, length := protowire.ConsumeVarint(message[p.start+tag:])
		p.value = p.start + tag + length
		return p, true
	}
	return p, false
}

func appendField(b []byte, number protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.BytesType), uint64(size))
}
