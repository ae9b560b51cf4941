package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// TestGuestbook is the story of a newcomer: everything the README says to type
// after the start, once with an unmodified kubectl and once with the embedded one.
func TestGuestbook(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	plain, err := kubectlPath()
	if err != nil {
		t.Fatal(err)
	}
	g := &guestbook{env: e, plain: plain, embedded: binary(t, "pintle")}
	steps := []struct {
		name string
		run  func(*testing.T)
	}{
		{"apply", g.apply}, {"rollout", g.rollout}, {"get", g.get}, {"describe", g.describe},
		{"service", g.service}, {"logs", g.logs}, {"exec", g.exec}, {"terminal", g.terminal},
		{"port-forward", g.portForward}, {"config", g.config}, {"scale", g.scale}, {"undo", g.undo},
		{"events", g.events}, {"apply again", g.applyAgain}, {"delete", g.delete},
	}
	for _, s := range steps {
		if !t.Run(s.name, s.run) {
			e.tell(t, "guestbook")
			return
		}
	}
}

type guestbook struct {
	*env
	plain, embedded string
}

func (g *guestbook) pintle(t *testing.T, args ...string) string {
	t.Helper()
	r := g.run(t, "", g.embedded, append([]string{"kubectl"}, args...)...)
	if r.err != nil {
		t.Fatalf("pintle kubectl %s: %v\n%s%s", strings.Join(args, " "), r.err, r.stdout, r.stderr)
	}
	return r.stdout
}

func (g *guestbook) apply(t *testing.T) {
	out := g.kubectl(t, "apply", "-f", "configs/examples/guestbook.yaml")
	contains(t, out, "namespace/guestbook created", "configmap/page created", "secret/store created",
		"service/store created", "service/frontend created", "deployment.apps/store created", "deployment.apps/frontend created")
}

func (g *guestbook) rollout(t *testing.T) {
	contains(t, g.kubectl(t, "-n", "guestbook", "rollout", "status", "deployment/frontend", "--timeout=110s"), `deployment "frontend" successfully rolled out`)
	contains(t, g.pintle(t, "-n", "guestbook", "rollout", "status", "deployment/store", "--timeout=110s"), `deployment "store" successfully rolled out`)
}

func (g *guestbook) get(t *testing.T) {
	for _, tool := range []func(*testing.T, ...string) string{func(t *testing.T, a ...string) string { return g.kubectl(t, a...) }, g.pintle} {
		all := tool(t, "-n", "guestbook", "get", "all")
		contains(t, all, "pod/frontend-", "service/frontend", "deployment.apps/store", "replicaset.apps/store-")
		deployments := tool(t, "-n", "guestbook", "get", "deployments")
		if !regexp.MustCompile(`(?m)^NAME +READY +UP-TO-DATE +AVAILABLE +AGE\nfrontend +2/2 +2 +2 +\S+\nstore +1/1 +1 +1 +\S+$`).MatchString(deployments) {
			t.Errorf("get deployments:\n%s", deployments)
		}
		pods := tool(t, "-n", "guestbook", "get", "pods", "-o", "wide")
		if !regexp.MustCompile(`(?m)^NAME +READY +STATUS +RESTARTS +AGE +IP +NODE +NOMINATED NODE +READINESS GATES\n(\S+ +1/1 +Running +0 +\S+ +10\.244\.0\.\d+ +\S+ +<none> +<none>\n?){3}$`).MatchString(pods) {
			t.Errorf("get pods -o wide:\n%s", pods)
		}
	}
	contains(t, g.kubectl(t, "get", "nodes"), "Ready")
	contains(t, g.kubectl(t, "-n", "guestbook", "get", "endpointslices,endpoints"), "frontend", "store")
}

func (g *guestbook) describe(t *testing.T) {
	contains(t, g.kubectl(t, "-n", "guestbook", "describe", "deployment", "frontend"),
		"Replicas:", "2 desired | 2 updated | 2 total | 2 available | 0 unavailable", "RollingUpdate", "ScalingReplicaSet", "Scaled up replica set frontend-")
	contains(t, g.kubectl(t, "-n", "guestbook", "describe", "pod", "-l", "app=store"),
		"Status:", "Running", "QoS Class:", "Burstable", "Scheduled", "Pulled", "Created", "Started", "default-scheduler", "kubelet", "Successfully assigned guestbook/store-")
	contains(t, g.kubectl(t, "-n", "guestbook", "describe", "service", "frontend"), "NodePort", "30080/TCP", "Endpoints:", "10.244.0.")
	contains(t, g.kubectl(t, "describe", "node"), "containerd://", "Allocatable:", "Non-terminated Pods:", "Allocated resources:")
}

// http is a client that opens a connection a request, from within the network.
func (e *env) http() *http.Client {
	return &http.Client{
		Timeout:       10 * time.Second,
		Transport:     &http.Transport{DialContext: e.Network.Dial, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// page is what an address answers to GET /.
func (e *env) page(ctx context.Context, address string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		return "", err
	}
	resp, err := e.http().Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s %s", address, resp.Status, body)
	}
	return string(body), nil
}

// service signs through the node port and reads through the cluster IP, from
// both pods of the frontend.
func (g *guestbook) service(t *testing.T) {
	svc, err := g.client.CoreV1().Services("guestbook").Get(bound(t), "frontend", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	addresses := []string{svc.Spec.ClusterIP + ":80", cluster.NodeIP + ":30080", "127.0.0.1:30080"}
	var resp *http.Response
	eventually(t, func(ctx context.Context) error {
		resp, err = g.http().PostForm("http://"+addresses[1]+"/", url.Values{"entry": {"a friend <from> afar"}})
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusSeeOther {
			return errors.New(resp.Status)
		}
		return nil
	})
	for _, address := range addresses {
		pods := map[string]bool{}
		served := regexp.MustCompile(`served by (frontend-\S+)</p>`)
		eventually(t, func(ctx context.Context) error {
			page, err := g.page(ctx, address)
			if err != nil {
				return err
			}
			contains(t, page, "The Pintle guestbook", "a friend &lt;from&gt; afar")
			if m := served.FindStringSubmatch(page); m != nil {
				pods[m[1]] = true
			}
			if len(pods) < 2 {
				return fmt.Errorf("%s was answered by %v only", address, pods)
			}
			return nil
		})
	}
	// The machine's own curl, as the README has it.
	if curl, err := exec.LookPath("curl"); err == nil {
		r := g.run(t, "", curl, "-sSf", "http://"+addresses[0]+"/")
		if r.err != nil {
			t.Errorf("curl: %v %s", r.err, r.stderr)
		}
		contains(t, r.stdout, "The Pintle guestbook")
	}
}

// logs follows the store's log while an entry comes in.
func (g *guestbook) logs(t *testing.T) {
	ctx, cancel := context.WithCancel(bound(t))
	defer cancel()
	cmd := g.Command(ctx, g.plain, "-n", "guestbook", "logs", "-f", "deployment/store", "--tail=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Network.Start(cmd); err != nil {
		t.Fatal(err)
	}
	scan := bufio.NewScanner(out)
	if !scan.Scan() || !strings.HasSuffix(scan.Text(), "entry 1 added") {
		t.Fatalf("first line is %q %v", scan.Text(), scan.Err())
	}
	resp, err := g.http().PostForm("http://127.0.0.1:30080/", url.Values{"entry": {"second"}})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if !scan.Scan() || !strings.HasSuffix(scan.Text(), "entry 2 added") {
		t.Fatalf("followed line is %q %v", scan.Text(), scan.Err())
	}
	cancel()
	_ = cmd.Wait() // killed
	contains(t, g.pintle(t, "-n", "guestbook", "logs", "-l", "app=frontend", "--prefix", "--timestamps"), "serving on :8080, store at http://10.96.")
}

func (g *guestbook) exec(t *testing.T) {
	if out := g.kubectl(t, "-n", "guestbook", "exec", "deployment/store", "--", "/store", "list"); out != "1. a friend <from> afar\n2. second\n" {
		t.Errorf("exec printed %q", out)
	}
	r := g.run(t, "by hand\n", g.plain, "-n", "guestbook", "exec", "-i", "deployment/store", "--", "/store", "sign")
	if r.err != nil || r.stdout != "your entry: 201 Created\n" {
		t.Errorf("exec -i: %+v", r)
	}
	r = g.try(t, "-n", "guestbook", "exec", "deployment/store", "--", "/store", "dance")
	var exit *exec.ExitError
	if !errors.As(r.err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("exec of a failing command: %+v", r)
	}
	contains(t, r.stderr, `unknown command "dance"`, "command terminated with exit code 1")
}

// terminal signs at a pseudo terminal.
func (g *guestbook) terminal(t *testing.T) {
	for _, tool := range [][]string{{g.plain}, {g.embedded, "kubectl"}} {
		args := append(tool[1:], "-n", "guestbook", "exec", "-it", "deployment/store", "--", "/store", "sign")
		cmd := g.Command(bound(t), tool[0], args...)
		tty := startTerminal(t, g.Network, cmd)
		tty.expect(t, "your entry: ")
		tty.write(t, "from a terminal\n")
		tty.expect(t, "201 Created")
		if err := cmd.Wait(); err != nil {
			t.Errorf("exec -it: %v\n%s", err, tty.seen())
		}
	}
}

func (g *guestbook) portForward(t *testing.T) {
	ctx, cancel := context.WithCancel(bound(t))
	defer cancel()
	cmd := g.Command(ctx, g.plain, "-n", "guestbook", "port-forward", "service/frontend", ":80")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Network.Start(cmd); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	m := regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+) -> 8080`).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("port-forward printed %q %v", line, err)
	}
	for range 3 {
		page, err := g.page(ctx, m[1])
		if err != nil {
			t.Fatal(err)
		}
		contains(t, page, "from a terminal")
	}
	cancel()
	_ = cmd.Wait() // killed
}

// config changes the ConfigMap: the mounted file follows, without a restart.
func (g *guestbook) config(t *testing.T) {
	g.kubectl(t, "-n", "guestbook", "patch", "configmap", "page", "-p", `{"data":{"title":"Another title"}}`)
	eventually(t, func(ctx context.Context) error {
		page, err := g.page(ctx, "127.0.0.1:30080")
		if err == nil && !strings.Contains(page, "<h1>Another title</h1>") {
			err = errors.New("the page has the old title")
		}
		return err
	})
	contains(t, g.kubectl(t, "-n", "guestbook", "get", "pods", "-l", "app=frontend", "-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}"), "0 0")
}

func (g *guestbook) scale(t *testing.T) {
	ctx, cancel := context.WithCancel(bound(t))
	defer cancel()
	watch := g.Command(ctx, g.plain, "-n", "guestbook", "get", "deployment", "frontend", "-w", "--no-headers")
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Network.Start(watch); err != nil {
		t.Fatal(err)
	}
	scan := bufio.NewScanner(out)
	if !scan.Scan() {
		t.Fatal(scan.Err())
	}
	contains(t, g.kubectl(t, "-n", "guestbook", "scale", "deployment/frontend", "--replicas=3"), "deployment.apps/frontend scaled")
	for want := regexp.MustCompile(`^frontend +3/3 +3 +3 `); !want.MatchString(scan.Text()); {
		if !scan.Scan() {
			t.Fatalf("get -w ended: %v", scan.Err())
		}
	}
	contains(t, g.pintle(t, "-n", "guestbook", "scale", "deployment/frontend", "--replicas=2", "--current-replicas=3"), "scaled")
	for want := regexp.MustCompile(`^frontend +2/2 +2 +2 `); !want.MatchString(scan.Text()); {
		if !scan.Scan() {
			t.Fatalf("get -w ended: %v", scan.Err())
		}
	}
	cancel()
	_ = watch.Wait() // killed
}

// undo changes an image and a variable, and takes the change back.
func (g *guestbook) undo(t *testing.T) {
	variable := func() string {
		return g.kubectl(t, "-n", "guestbook", "get", "deployment", "frontend", "-o", `jsonpath={.spec.template.spec.containers[0].env[?(@.name=="GREETING")].value}`)
	}
	g.kubectl(t, "-n", "guestbook", "set", "env", "deployment/frontend", "GREETING=hello")
	g.kubectl(t, "-n", "guestbook", "annotate", "deployment/frontend", "kubernetes.io/change-cause=a greeting")
	contains(t, g.kubectl(t, "-n", "guestbook", "rollout", "status", "deployment/frontend", "--timeout=110s"), "successfully rolled out")
	if v := variable(); v != "hello" {
		t.Errorf("GREETING is %q", v)
	}
	// An image that is not there: the old pods go on serving.
	g.kubectl(t, "-n", "guestbook", "set", "image", "deployment/frontend", "frontend="+registryAddress+"/nothing:1")
	eventually(t, func(ctx context.Context) error {
		pods := g.kubectl(t, "-n", "guestbook", "get", "pods", "-l", "app=frontend")
		if !strings.Contains(pods, "ErrImagePull") && !strings.Contains(pods, "ImagePullBackOff") {
			return fmt.Errorf("no pull failed:\n%s", pods)
		}
		return nil
	})
	if _, err := g.page(bound(t), "127.0.0.1:30080"); err != nil {
		t.Errorf("the page is away during a failing rollout: %v", err)
	}
	contains(t, g.kubectl(t, "-n", "guestbook", "rollout", "history", "deployment/frontend"), "REVISION  CHANGE-CAUSE", "1 ", "2 ", "3 ", "a greeting")
	contains(t, g.kubectl(t, "-n", "guestbook", "rollout", "undo", "deployment/frontend"), "deployment.apps/frontend rolled back")
	contains(t, g.kubectl(t, "-n", "guestbook", "rollout", "status", "deployment/frontend", "--timeout=110s"), "successfully rolled out")
	if v := variable(); v != "hello" {
		t.Errorf("after undo GREETING is %q", v)
	}
	g.pintle(t, "-n", "guestbook", "rollout", "undo", "deployment/frontend", "--to-revision=1")
	contains(t, g.kubectl(t, "-n", "guestbook", "rollout", "status", "deployment/frontend", "--timeout=110s"), "successfully rolled out")
	if v := variable(); v != "" {
		t.Errorf("after undo to the first revision GREETING is %q", v)
	}
	g.kubectl(t, "-n", "guestbook", "rollout", "restart", "deployment/frontend")
	contains(t, g.kubectl(t, "-n", "guestbook", "rollout", "status", "deployment/frontend", "--timeout=110s"), "successfully rolled out")
}

func (g *guestbook) events(t *testing.T) {
	out := g.kubectl(t, "-n", "guestbook", "get", "events", "--sort-by=.metadata.creationTimestamp")
	contains(t, out, "LAST SEEN", "Scheduled", "Pulled", "Started", "Killing", "SuccessfulCreate", "SuccessfulDelete", "ScalingReplicaSet", "deployment/frontend")
	contains(t, g.kubectl(t, "-n", "guestbook", "events", "--for", "deployment/frontend"), "Scaled up replica set", "Scaled down replica set")
}

func (g *guestbook) applyAgain(t *testing.T) {
	out := g.pintle(t, "apply", "-f", "configs/examples/guestbook.yaml")
	contains(t, out, "namespace/guestbook unchanged", "deployment.apps/store unchanged", "configmap/page configured")
	out = g.kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", "configs/examples/guestbook.yaml")
	contains(t, out, "deployment.apps/frontend serverside-applied")
	if r := g.try(t, "diff", "-f", "configs/examples/guestbook.yaml"); r.err != nil {
		t.Errorf("diff after apply: %+v", r)
	}
}

func (g *guestbook) delete(t *testing.T) {
	out := g.kubectl(t, "delete", "-f", "configs/examples/guestbook.yaml", "--timeout=110s")
	contains(t, out, `namespace "guestbook" deleted`, `deployment.apps "frontend" deleted`)
	if r := g.try(t, "get", "namespace", "guestbook"); r.err == nil || !strings.Contains(r.stderr, `namespaces "guestbook" not found`) {
		t.Errorf("the namespace is there still: %+v", r)
	}
}
