package sdk

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// BenchmarkApply is the delta of one pod that was placed on one of 5,000 nodes,
// told of by its class. As a module it says more:
//
//	GOOS=wasip1 GOARCH=wasm go test -c -o sdk.wasm ./sdk
func BenchmarkApply(b *testing.B) {
	const count = 5000
	g := asking(b, 0)
	whole := &contractv1.Delta{Generation: 1}
	for i := range uint32(count) {
		name := fmt.Sprint("node-", i)
		whole.Operations = append(whole.Operations, node(i, &contractv1.Node{Name: name, Uid: name, Labels: map[string]string{
			"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "zone": fmt.Sprint("zone-", i%3), "pool": fmt.Sprint("pool-", i%10),
		}}))
	}
	if err := g.Apply(encode(b, whole)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var delta []byte
	for i := 0; b.Loop(); i++ {
		var pod, add, op []byte
		pod = protowire.AppendString(protowire.AppendTag(pod, 2, protowire.BytesType), "pod")
		pod = protowire.AppendString(protowire.AppendTag(pod, 3, protowire.BytesType), fmt.Sprint("5f0c9b1e-0000-4000-8000-", i))
		add = protowire.AppendVarint(protowire.AppendTag(add, 1, protowire.VarintType), uint64(i%count))
		add = protowire.AppendBytes(protowire.AppendTag(add, 2, protowire.BytesType), pod)
		add = protowire.AppendVarint(protowire.AppendTag(add, 3, protowire.VarintType), 7)
		op = protowire.AppendBytes(protowire.AppendTag(op, 3, protowire.BytesType), add)
		delta = protowire.AppendVarint(protowire.AppendTag(delta[:0], 1, protowire.VarintType), uint64(i+2))
		delta = protowire.AppendBytes(protowire.AppendTag(delta, 3, protowire.BytesType), op)
		if err := g.Apply(delta); err != nil {
			b.Fatal(err)
		}
	}
}
