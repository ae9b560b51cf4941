package guest

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Deltas are the encodings of what is queued for a guest.
func Deltas(queue []Part, classes bool) ([][]byte, error) {
	var out [][]byte
	for _, p := range queue {
		encoded, err := p.Bytes(classes)
		if err != nil {
			return nil, err
		}
		out = append(out, encoded)
	}
	return out, nil
}

const (
	// PartOperations and PartBytes bound what a guest is handed at once. More
	// than that is handed over part by part and outside the scheduling cycle.
	PartOperations = 256
	PartBytes      = 1 << 20
)

// Part is a delta with its encoding, which is the same for all guests that know
// classes: pods of a class are named by it.
type Part struct {
	Delta   *contractv1.Delta
	Encoded []byte
	brief   bool // the delta names classes
	// After is the generation that it follows; a queue may join several that are empty.
	After uint64
}

func NewPart(delta *contractv1.Delta) (Part, error) {
	encoded, brief, err := encodeDelta(delta)
	if err != nil {
		return Part{}, fmt.Errorf("encode delta %d: %w", delta.GetGeneration(), err)
	}
	return Part{delta, encoded, brief, delta.GetGeneration() - 1}, nil
}

// encodeDelta encodes a delta; of the pod of a class only what its class does not
// say. It reports whether there was one.
func encodeDelta(delta *contractv1.Delta) (out []byte, brief bool, err error) {
	for _, op := range delta.GetOperations() {
		if brief = op.GetPodAdd().GetClass() != 0; brief {
			break
		}
	}
	if !brief {
		// In one order, so that equal pods have equal bytes.
		out, err = proto.MarshalOptions{Deterministic: true}.Marshal(delta)
		return out, false, err
	}
	out = make([]byte, 0, 64*(1+len(delta.GetOperations())))
	if g := delta.GetGeneration(); g != 0 {
		out = protowire.AppendVarint(protowire.AppendTag(out, 1, protowire.VarintType), g)
	}
	if delta.GetReset_() {
		out = protowire.AppendVarint(protowire.AppendTag(out, 2, protowire.VarintType), 1)
	}
	for _, op := range delta.GetOperations() {
		out = protowire.AppendTag(out, 3, protowire.BytesType)
		add := op.GetPodAdd()
		if add.GetClass() == 0 {
			out = protowire.AppendVarint(out, uint64(proto.Size(op)))
			if out, err = (proto.MarshalOptions{UseCachedSize: true, Deterministic: true}).MarshalAppend(out, op); err != nil {
				return nil, false, err
			}
			continue
		}
		name, uid, start := add.GetPod().GetName(), add.GetPod().GetUid(), uint64(add.GetPod().GetStartTimeUnix())
		pod := protowire.SizeTag(2) + protowire.SizeBytes(len(name)) + protowire.SizeTag(3) + protowire.SizeBytes(len(uid))
		if start != 0 {
			pod += protowire.SizeTag(21) + protowire.SizeVarint(start)
		}
		node, class := uint64(add.GetNode()), uint64(add.GetClass())
		size := protowire.SizeTag(1) + protowire.SizeVarint(node) + protowire.SizeTag(2) + protowire.SizeBytes(pod) + protowire.SizeTag(3) + protowire.SizeVarint(class)
		out = protowire.AppendVarint(out, uint64(protowire.SizeTag(3)+protowire.SizeBytes(size)))
		out = protowire.AppendVarint(protowire.AppendTag(out, 3, protowire.BytesType), uint64(size))
		out = protowire.AppendVarint(protowire.AppendTag(out, 1, protowire.VarintType), node)
		out = protowire.AppendVarint(protowire.AppendTag(out, 2, protowire.BytesType), uint64(pod))
		out = protowire.AppendString(protowire.AppendTag(out, 2, protowire.BytesType), name)
		out = protowire.AppendString(protowire.AppendTag(out, 3, protowire.BytesType), uid)
		if start != 0 {
			out = protowire.AppendVarint(protowire.AppendTag(out, 21, protowire.VarintType), start)
		}
		out = protowire.AppendVarint(protowire.AppendTag(out, 3, protowire.VarintType), class)
	}
	return out, true, nil
}

// Split cuts a delta into parts of bounded size with its generation; the first
// one has its reset.
func Split(delta *contractv1.Delta) ([]Part, error) {
	var parts []Part
	cut := func(operations []*contractv1.Operation) error {
		p, err := NewPart(&contractv1.Delta{
			Generation: delta.GetGeneration(), Reset_: delta.GetReset_() && len(parts) == 0, Operations: operations,
		})
		parts = append(parts, p)
		return err
	}
	first, size := 0, 0
	operations := delta.GetOperations()
	for k, op := range operations {
		n := proto.Size(op)
		if k > first && (k-first >= PartOperations || size+n > PartBytes) {
			if err := cut(operations[first:k]); err != nil {
				return nil, err
			}
			first, size = k, 0
		}
		size += n
	}
	if err := cut(operations[first:]); err != nil {
		return nil, err
	}
	return parts, nil
}

func BytesOf(queue []Part) int {
	size := 0
	for _, p := range queue {
		size += len(p.Encoded)
	}
	return size
}
