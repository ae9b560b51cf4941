package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk/contract"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/transport"
)

// grace is how long a process may take to end when it is asked to.
const grace = 10 * time.Second

// Process is a bundle that runs as a process; beside the questions of Artifact
// it answers those that only processes are asked.
type Process struct {
	options    Options
	client     *goplugin.Client
	conn       *grpc.ClientConn
	lifecycle  contractv1.LifecycleClient
	scheduling contractv1.SchedulingClient
	plugins    []*contractv1.PluginDescription
	pid        int
	generation uint64
	sockets    string
	said       *said
	until      int64 // of the last answers
}

var _ Artifact = (*Process)(nil)

// OpenProcess starts the executable at path: with a clean environment, mutual
// TLS and a process group of its own, as the kernel does.
func OpenProcess(ctx context.Context, path string, o Options) (_ *Process, err error) {
	o = o.withDefaults()
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	if fi, err := os.Stat(path); err != nil {
		return nil, err
	} else if fi.Mode()&0o111 == 0 {
		return nil, fmt.Errorf("%s is not executable", path)
	}
	p := &Process{options: o, said: &said{output: o.Output}}
	if p.sockets, err = os.MkdirTemp("", "pintle-artifact-"); err != nil {
		return nil, err
	}
	cmd := exec.Command(path)
	cmd.Dir = filepath.Dir(path)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
		"PLUGIN_UNIX_SOCKET_DIR=" + p.sockets}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig: transport.Handshake, Plugins: goplugin.PluginSet{transport.Name: &transport.Plugin{}},
		Cmd: cmd, AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC}, AutoMTLS: true, SkipHostEnv: true,
		StartTimeout: o.long(), Logger: hclog.NewNullLogger(),
		Stderr: p.said, SyncStdout: io.Discard, SyncStderr: io.Discard,
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: p.sockets},
		GRPCDialOptions: []grpc.DialOption{grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(transport.MaxMessageBytes), grpc.MaxCallSendMsgSize(transport.MaxMessageBytes))},
	})
	defer func() {
		if err != nil {
			p.kill(0)
			err = p.said.explain(err)
		}
	}()
	stop := context.AfterFunc(ctx, p.client.Kill)
	defer stop()
	began := time.Now()
	protocol, err := p.client.Client()
	if cmd.Process != nil {
		p.pid = cmd.Process.Pid
	}
	if err != nil && time.Since(began) >= o.long() {
		return nil, fmt.Errorf("start %s: %w in %v: it did not write the line of the handshake", path, ErrNoAnswer, o.long())
	}
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("start %s: %s", path, line)
	}
	raw, err := protocol.Dispense(transport.Name)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	p.conn = raw.(*grpc.ClientConn)
	p.lifecycle, p.scheduling = contractv1.NewLifecycleClient(p.conn), contractv1.NewSchedulingClient(p.conn)
	ctx, cancel := context.WithTimeout(ctx, o.long())
	defer cancel()
	d, err := p.lifecycle.Describe(ctx, &contractv1.DescribeRequest{MinContract: contract.Min, MaxContract: contract.Max})
	if err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	if c := d.GetContract(); c < contract.Min || c > contract.Max {
		return nil, fmt.Errorf("describe: contract %d, want %d to %d", c, contract.Min, contract.Max)
	}
	p.plugins = d.GetPlugins()
	return p, nil
}

// kill ends the process and its group: at once, or when patience is over.
func (p *Process) kill(patience time.Duration) {
	force := func() {
		if p.pid > 0 {
			_ = syscall.Kill(-p.pid, syscall.SIGKILL) // an empty group is no error to anyone
		}
	}
	if patience <= 0 {
		force()
	}
	late := time.AfterFunc(patience, force)
	p.client.Kill()
	late.Stop()
	force() // what it left behind
	_ = os.RemoveAll(p.sockets)
}

// answered tells refusals from failures of the process.
func (p *Process) answered(what string, err error) error {
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	switch s.Code() {
	case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.Unimplemented:
		return fmt.Errorf("%s: %w: %s", what, ErrRefused, s.Message())
	case codes.DeadlineExceeded:
		return fmt.Errorf("%s: %w in %v", what, ErrNoAnswer, p.options.CallTimeout)
	}
	err = fmt.Errorf("%s: %s: %s", what, s.Code(), s.Message())
	if s.Code() == codes.Unavailable && p.ended() {
		err = p.said.explain(err)
	}
	return err
}

// ended waits a moment for the end of a process whose connection broke, after which
// all that it printed was read.
func (p *Process) ended() bool {
	for range 100 {
		if p.client.Exited() {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func (p *Process) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, p.options.CallTimeout)
}

// Conn is the connection to the process, for the services of other kinds.
func (p *Process) Conn() *grpc.ClientConn { return p.conn }

// Pid is the process.
func (p *Process) Pid() int { return p.pid }

// Sockets is the folder below which the process may listen.
func (p *Process) Sockets() string { return p.sockets }

func (p *Process) Plugins() []*contractv1.PluginDescription { return p.plugins }

// name of a plugin; a position that is none becomes a name that is none.
func (p *Process) name(plugin int) string {
	if plugin < 0 || plugin >= len(p.plugins) {
		return fmt.Sprintf("none-%d", plugin)
	}
	return p.plugins[plugin].GetName()
}

func (p *Process) Configure(ctx context.Context, plugin int, config []byte) error {
	ctx, cancel := context.WithTimeout(ctx, p.options.long())
	defer cancel()
	_, err := p.lifecycle.Configure(ctx, &contractv1.ConfigureRequest{Plugin: p.name(plugin), Config: config})
	return p.answered("configure", err)
}

// Health asks the process whether it is well.
func (p *Process) Health(ctx context.Context) error {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	resp, err := p.lifecycle.Health(ctx, &contractv1.HealthRequest{})
	if err != nil {
		return p.answered("health", err)
	}
	if !resp.GetHealthy() {
		return fmt.Errorf("health: %s", resp.GetMessage())
	}
	return nil
}

func (p *Process) Apply(ctx context.Context, delta *contractv1.Delta) error {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	resp, err := p.scheduling.Apply(ctx, &contractv1.ApplyRequest{Delta: delta})
	if err != nil {
		return p.answered("apply", err)
	}
	if resp.GetGeneration() != delta.GetGeneration() {
		return fmt.Errorf("apply: generation %d after delta %d", resp.GetGeneration(), delta.GetGeneration())
	}
	p.generation = delta.GetGeneration()
	return nil
}

// ApplyEncoded refuses itself what is no delta: gRPC carries decoded ones only.
func (p *Process) ApplyEncoded(ctx context.Context, delta []byte) error {
	d := &contractv1.Delta{}
	if err := proto.Unmarshal(delta, d); err != nil {
		return fmt.Errorf("apply: %w: %w", ErrRefused, err)
	}
	return p.Apply(ctx, d)
}

func (p *Process) Filter(ctx context.Context, plugin int, class uint32, nodes []uint32) ([][]string, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	resp, err := p.scheduling.Filter(ctx, &contractv1.FilterRequest{Plugin: p.name(plugin), Class: class, Nodes: nodes, Generation: p.generation})
	if err != nil {
		return nil, p.answered("filter", err)
	}
	p.until = resp.GetUntilUnixMilli()
	return spelled(resp.GetVerdicts(), resp.GetReasons(), len(nodes))
}

// spelled turns verdicts into words.
func spelled(verdicts []uint32, sets []*contractv1.ReasonSet, nodes int) ([][]string, error) {
	if len(verdicts) != nodes {
		return nil, fmt.Errorf("filter: %d verdicts for %d nodes", len(verdicts), nodes)
	}
	out := make([][]string, nodes)
	for k, v := range verdicts {
		if v == 0 {
			continue
		}
		if int(v) > len(sets) {
			return nil, fmt.Errorf("filter: verdict %d of %d", v, len(sets))
		}
		if out[k] = sets[v-1].GetReasons(); len(out[k]) == 0 {
			return nil, fmt.Errorf("filter: verdict %d has no reason", v)
		}
	}
	return out, nil
}

func (p *Process) Score(ctx context.Context, plugin int, class uint32, nodes []uint32) ([]int64, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	resp, err := p.scheduling.Score(ctx, &contractv1.ScoreRequest{Plugin: p.name(plugin), Class: class, Nodes: nodes, Generation: p.generation})
	p.until = resp.GetUntilUnixMilli()
	return p.scored("score", resp, err, len(nodes))
}

func (p *Process) Normalize(ctx context.Context, plugin int, class uint32, nodes []uint32, scores []int64) ([]int64, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	resp, err := p.scheduling.Normalize(ctx, &contractv1.NormalizeRequest{Plugin: p.name(plugin), Class: class, Nodes: nodes, Scores: scores})
	return p.scored("normalize", resp, err, len(nodes))
}

func (p *Process) scored(what string, resp *contractv1.ScoreResponse, err error, nodes int) ([]int64, error) {
	if err != nil {
		return nil, p.answered(what, err)
	}
	if len(resp.GetScores()) != nodes {
		return nil, fmt.Errorf("%s: %d scores for %d nodes", what, len(resp.GetScores()), nodes)
	}
	return resp.GetScores(), nil
}

// Evaluate asks everything about one class in one call, as the kernel does. A
// process that does not know the call refuses.
func (p *Process) Evaluate(ctx context.Context, req *contractv1.EvaluateRequest) (*contractv1.EvaluateResponse, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	resp, err := p.scheduling.Evaluate(ctx, req)
	if err != nil {
		return nil, p.answered("evaluate", err)
	}
	p.generation = resp.GetGeneration()
	return resp, nil
}

// Cycle implements Artifact.
func (p *Process) Cycle(ctx context.Context, request *contractv1.CycleRequest) (*contractv1.CycleResponse, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	response, err := contractv1.NewCycleClient(p.conn).Run(ctx, request)
	return response, p.answered("cycle", err)
}

// Review implements Artifact.
func (p *Process) Review(ctx context.Context, plugin int, request []byte) ([]byte, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	response, err := contractv1.NewAdmissionsClient(p.conn).Review(ctx, &contractv1.ReviewRequest{Plugin: p.name(plugin), Request: request})
	return response.GetResponse(), p.answered("review", err)
}

// MemoryBytes is the resident memory of the process.
func (p *Process) MemoryBytes() int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// Close asks the process to stop and waits for its end.
func (p *Process) Close(ctx context.Context) error {
	if p.client.Exited() {
		p.kill(0)
		return errors.New("stop: the process had ended before it was asked to")
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	_, err := p.lifecycle.Stop(ctx, &contractv1.StopRequest{GraceMilliseconds: grace.Milliseconds()})
	began := time.Now()
	p.kill(grace)
	if err != nil {
		return p.answered("stop", err)
	}
	if time.Since(began) >= grace {
		return fmt.Errorf("stop: the process was there %v after it had answered", grace)
	}
	return nil
}
