package artifact

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Source answers with the plugins of the caller's own process; sdk.NewGuest()
// is a guest of everything that is registered in it.
func Source(guest *sdk.Guest) Artifact { return &source{guest: guest} }

type source struct{ guest *sdk.Guest }

var _ Artifact = (*source)(nil)

func (s *source) Plugins() []*contractv1.PluginDescription {
	var list []*contractv1.PluginDescription
	for _, p := range s.guest.Plugins() {
		list = append(list, &contractv1.PluginDescription{
			Name: p.Name, Kind: p.Kind, Scope: string(p.Scope), Normalize: string(p.Normalize), MaxScore: p.MaxScore, Reads: p.Reads, Expires: p.Expires,
		})
	}
	return list
}

// refused marks the guest's errors; a panic of the plugin is none of them.
func refused(err error) error {
	if err == nil || errors.Is(err, sdk.ErrPanic) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}

func (s *source) Configure(_ context.Context, plugin int, config []byte) error {
	return refused(s.guest.Configure(plugin, config))
}

func (s *source) Apply(_ context.Context, delta *contractv1.Delta) error {
	data, err := proto.Marshal(delta)
	if err != nil {
		return err
	}
	return refused(s.guest.Apply(data))
}

func (s *source) ApplyEncoded(_ context.Context, delta []byte) error {
	return refused(s.guest.Apply(delta))
}

func (s *source) Filter(_ context.Context, plugin int, class uint32, nodes []uint32) ([][]string, error) {
	verdicts := make([]uint32, len(nodes))
	if err := s.guest.Filter(plugin, class, nodes, verdicts); err != nil {
		return nil, refused(err)
	}
	out := make([][]string, len(nodes))
	for k, v := range verdicts {
		out[k] = s.guest.Reasons(plugin, v)
	}
	return out, nil
}

func (s *source) Score(_ context.Context, plugin int, class uint32, nodes []uint32) ([]int64, error) {
	out := make([]int64, len(nodes))
	return out, refused(s.guest.Score(plugin, class, nodes, out))
}

func (s *source) Normalize(_ context.Context, plugin int, class uint32, nodes []uint32, scores []int64) ([]int64, error) {
	out := append([]int64(nil), scores...)
	return out, refused(s.guest.Normalize(plugin, class, nodes, out))
}

func (s *source) Review(_ context.Context, plugin int, request []byte) ([]byte, error) {
	response, err := s.guest.Admit(plugin, request)
	return response, refused(err)
}

func (s *source) Cycle(ctx context.Context, request *contractv1.CycleRequest) (*contractv1.CycleResponse, error) {
	data, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	if data, err = s.guest.Cycle(ctx, data); err != nil {
		return nil, refused(err)
	}
	response := &contractv1.CycleResponse{}
	return response, proto.Unmarshal(data, response)
}

func (s *source) MemoryBytes() int64          { return 0 }
func (s *source) Close(context.Context) error { return nil }
