//go:build !wasip1

// Hostileprocess is a process plugin that breaks the contract in the way that the
// folder of its bundle is named after. It serves the contract by hand, without
// package sdk, whose guards would keep it from the worst.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/controller"
	"pintle.dev/pintle/sdk/transport"
)

// mode is how it misbehaves, which is the name of its plugin too.
var mode = filepath.Base(filepath.Dir(os.Args[0]))

func main() {
	switch mode {
	case "child":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		time.Sleep(time.Hour)
	case "diesatload":
		panic("at load")
	case "mumbles": // instead of a handshake
		fmt.Println("1|1|unix|/run/docker.sock|grpc|" + strings.Repeat("A", 60))
		time.Sleep(time.Hour)
	case "dumb": // no handshake at all
		time.Sleep(time.Hour)
	case "spies", "nags":
		controller.Serve(controller.Controller{Name: mode, New: func(c *controller.Context) (controller.Runner, error) {
			return controller.RunnerFunc(func(ctx context.Context) error {
				if mode == "nags" {
					return nag(ctx, c)
				}
				return spy(ctx, c)
			}), nil
		}})
		return
	case "floods":
		go flood(os.Stderr) // go-plugin puts a pipe in its place
		go flood(os.NewFile(2, "stderr"))
	}
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: transport.Handshake,
		Plugins:         goplugin.PluginSet{transport.Name: &served{}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxSendMsgSize(math.MaxInt32), grpc.ForceServerCodecV2(codec{}))...)
		},
	})
}

func flood(f *os.File) {
	for line := []byte("[ERROR] " + strings.Repeat("noise ", 20) + "\n"); ; {
		if _, err := f.Write(line); err != nil {
			return
		}
	}
}

// codec sends a message of 1 GiB without having one.
type codec struct{}

// gigabyte stands for it.
type gigabyte struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	if _, huge := v.(*gigabyte); huge {
		block := mem.SliceBuffer(make([]byte, 1<<20))
		var all mem.BufferSlice
		for range 1024 {
			all = append(all, block)
		}
		return all, nil
	}
	data, err := proto.Marshal(v.(proto.Message))
	return mem.BufferSlice{mem.SliceBuffer(data)}, err
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	return proto.Unmarshal(data.Materialize(), v.(proto.Message))
}

type served struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (served) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	contractv1.RegisterLifecycleServer(s, lifecycle{})
	contractv1.RegisterAdmissionsServer(s, admissions{})
	desc := contractv1.Scheduling_ServiceDesc
	desc.Methods = append([]grpc.MethodDesc(nil), desc.Methods...)
	for i := range desc.Methods {
		m := &desc.Methods[i]
		if m.MethodName == "Filter" && mode == "gigabyte" {
			m.Handler = func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
				return &gigabyte{}, nil
			}
		}
	}
	s.RegisterService(&desc, scheduling{})
	return nil
}

func (served) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("not a client")
}

type lifecycle struct {
	contractv1.UnimplementedLifecycleServer
}

func (lifecycle) Describe(context.Context, *contractv1.DescribeRequest) (*contractv1.Description, error) {
	if mode == "diesatdescribe" {
		panic("at describe")
	}
	if resource := reviewed[mode]; resource != "" {
		return &contractv1.Description{Contract: 1, Plugins: []*contractv1.PluginDescription{{Name: mode, Kind: "admission", Phase: "validating", Rules: []*contractv1.AdmissionRule{
			{Operations: []string{"CREATE"}, Resources: []string{"v1/" + resource}},
		}}}}, nil
	}
	kind, normalize := "predicate", ""
	if strings.HasPrefix(mode, "scores") {
		kind, normalize = "priority", "none"
	}
	return &contractv1.Description{Contract: 1, Plugins: []*contractv1.PluginDescription{{Name: mode, Kind: kind, Scope: "node", Normalize: normalize}}}, nil
}

func (lifecycle) Health(context.Context, *contractv1.HealthRequest) (*contractv1.HealthResponse, error) {
	return &contractv1.HealthResponse{Healthy: true}, nil
}

func (lifecycle) Stop(ctx context.Context, _ *contractv1.StopRequest) (*contractv1.StopResponse, error) {
	if mode == "stays" {
		select {}
	}
	return &contractv1.StopResponse{}, nil
}

// reviewed is the resource that an admission plugin is asked about.
var reviewed = map[string]string{"admitdies": "configmaps", "admithangs": "secrets", "admithuge": "services", "admitgarbage": "endpoints"}

type admissions struct {
	contractv1.UnimplementedAdmissionsServer
}

func (admissions) Review(context.Context, *contractv1.ReviewRequest) (*contractv1.ReviewResponse, error) {
	switch mode {
	case "admitdies":
		panic("at review")
	case "admithangs":
		select {}
	case "admithuge":
		return &contractv1.ReviewResponse{Response: make([]byte, 100<<20)}, nil
	}
	return &contractv1.ReviewResponse{Response: []byte("garbage")}, nil
}

type scheduling struct {
	contractv1.UnimplementedSchedulingServer
}

var (
	asked    atomic.Int64
	hoard    [][]byte
	hoarding sync.Once
)

func (scheduling) Apply(_ context.Context, req *contractv1.ApplyRequest) (*contractv1.ApplyResponse, error) {
	return &contractv1.ApplyResponse{Generation: req.GetDelta().GetGeneration()}, nil
}

func (scheduling) Filter(_ context.Context, req *contractv1.FilterRequest) (*contractv1.FilterResponse, error) {
	fits := &contractv1.FilterResponse{Verdicts: make([]uint32, len(req.GetNodes()))}
	switch mode {
	case "diesatsecond":
		if asked.Add(1) == 2 {
			panic("at the second call")
		}
	case "flaps":
		os.Exit(3)
	case "hangs":
		select {}
	case "dozes":
		time.Sleep(850 * time.Millisecond)
	case "hoards":
		for {
			b := make([]byte, 8<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			hoard = append(hoard, b)
		}
	case "forks":
		fork()
		os.Exit(0)
	case "fills": // three quarters of what it has
		hoarding.Do(func() {
			b := make([]byte, 48<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			hoard = append(hoard, b)
		})
	case "verdicts":
		for i := range fits.Verdicts {
			fits.Verdicts[i] = math.MaxUint32
		}
	case "lengths":
		fits.Verdicts = append(fits.Verdicts, 0, 0, 0)
	}
	return fits, nil
}

func (scheduling) Score(_ context.Context, req *contractv1.ScoreRequest) (*contractv1.ScoreResponse, error) {
	scores := &contractv1.ScoreResponse{Scores: make([]int64, len(req.GetNodes()))}
	score := map[string]int64{"scoreslow": math.MinInt64, "scoreshuge": math.MaxInt64, "scoreseleven": 11, "scoresnan": int64(math.Float64bits(math.NaN()))}[mode]
	for i := range scores.Scores {
		scores.Scores[i] = score
	}
	if mode == "scoresmore" {
		scores.Scores = append(scores.Scores, 0, 0, 0)
	}
	return scores, nil
}

// fork starts children in sessions and process groups of their own, that hold
// their parent's output and listen to no signal.
func fork() {
	for range 5 {
		// The name of the file's folder is what the child goes by.
		cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{filepath.Join(filepath.Dir(filepath.Dir(os.Args[0])), "child", "forked")}}
		cmd.Stdout, cmd.Stderr = os.NewFile(1, "stdout"), os.NewFile(2, "stderr")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			fmt.Fprintln(os.NewFile(2, "stderr"), "fork:", err)
		}
	}
}

// spy tries what its manifest does not ask for, and tells what it got.
func spy(ctx context.Context, c *controller.Context) error {
	if _, err := c.Client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		c.Logger.Error("reached", "what", "secrets", "error", fmt.Sprint(err))
	}
	for _, place := range places(c.Config) {
		if data, err := os.ReadFile(place); err == nil && len(data) > 0 {
			c.Logger.Error("reached", "what", place)
		}
		if entries, err := os.ReadDir(place); err == nil {
			c.Logger.Error("reached", "what", place, "entries", len(entries))
		}
	}
	if err := syscall.Setuid(0); err == nil {
		c.Logger.Error("reached", "what", "user 0")
	}
	// Processes beside it: their memory, and a signal.
	mates, _ := filepath.Glob("/proc/[0-9]*")
	for _, mate := range mates {
		args, _ := os.ReadFile(mate + "/cmdline")
		if own, _ := os.Readlink("/proc/self"); filepath.Base(mate) == own || !bytes.Contains(args, []byte("pintle")) && !bytes.Contains(args, []byte("/plugins/")) {
			continue
		}
		for _, file := range []string{"/mem", "/environ"} {
			if f, err := os.OpenFile(mate+file, os.O_RDWR, 0); err == nil {
				f.Close()
				c.Logger.Error("reached", "what", mate+file, "of", string(args))
			}
		}
	}
	c.Logger.Info("looked around", "places", len(places(c.Config)), "mates", len(mates))
	<-ctx.Done()
	return nil
}

// places are files of the kernel and of other plugins: below the data directory that
// its configuration names, as that of a plugin may, and beside its own folder.
func places(config []byte) []string {
	var of struct{ Data string }
	if err := json.Unmarshal(config, &of); err != nil || of.Data == "" {
		return nil
	}
	data := of.Data
	found := []string{data, data + "/admin.kubeconfig", data + "/super-admin.kubeconfig", data + "/pki/ca.key", data + "/pki/sa.key", data + "/store", data + "/run", data + "/plugins/users.json"}
	own := filepath.Dir(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"))
	others, _ := filepath.Glob(filepath.Join(filepath.Dir(own), "*"))
	for _, other := range others {
		if other != own && filepath.Base(other) != "public" {
			found = append(found, other)
		}
	}
	return found
}

// nag calls the API as fast as it can and tells how much was answered.
func nag(ctx context.Context, c *controller.Context) error {
	var wg sync.WaitGroup
	var answered atomic.Int64
	began := time.Now()
	for range 16 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := c.Client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err == nil {
					answered.Add(1)
				}
			}
		})
	}
	wg.Go(func() {
		for tick := time.NewTicker(3 * time.Second); ctx.Err() == nil; {
			select {
			case <-ctx.Done():
			case <-tick.C:
				c.Logger.Info("nagged", "answered", answered.Load(), "milliseconds", time.Since(began).Milliseconds())
			}
		}
	})
	wg.Wait()
	return nil
}
