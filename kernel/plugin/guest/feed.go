package guest

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Whole is the delta with every pod in full, for guests that do not know classes.
func (p Part) Whole() *contractv1.Delta {
	if !p.brief {
		return p.Delta
	}
	d := &contractv1.Delta{Generation: p.Delta.GetGeneration(), Reset_: p.Delta.GetReset_()}
	for _, op := range p.Delta.GetOperations() {
		if add := op.GetPodAdd(); add.GetClass() != 0 {
			op = &contractv1.Operation{Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: add.GetNode(), Pod: add.GetPod()}}}
		}
		d.Operations = append(d.Operations, op)
	}
	return d
}

// Bytes is the encoding for a guest.
func (p Part) Bytes(classes bool) ([]byte, error) {
	if classes || !p.brief {
		return p.Encoded, nil
	}
	encoded, err := proto.Marshal(p.Whole())
	if err != nil {
		return nil, fmt.Errorf("encode delta %d: %w", p.Delta.GetGeneration(), err)
	}
	return encoded, nil
}

func (p Part) Large() bool {
	return len(p.Delta.GetOperations()) > PartOperations || len(p.Encoded) > PartBytes
}
