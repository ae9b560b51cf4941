package conformance

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pintle.dev/pintle/sdk/artifact"
)

// compileC makes a module of a C source, with the words of ABI.md's command.
func compileC(t *testing.T, source string) string {
	t.Helper()
	clang, err := exec.LookPath("clang")
	if err != nil {
		t.Skip("there is no clang (Debian: clang lld)")
	}
	if _, err := exec.LookPath("wasm-ld"); err != nil {
		t.Skip("there is no wasm-ld (Debian: lld)")
	}
	dir := t.TempDir()
	main, module := filepath.Join(dir, "main.c"), filepath.Join(dir, "name.wasm")
	if err := os.WriteFile(main, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), clang, "--target=wasm32", "-O2", "-ffreestanding", "-nostdlib", "-Wl,--no-entry", "-o", module, main)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return module
}

// mutant is a fault that an author may make, as a change of testdata/byhand/main.c.
type mutant struct {
	name     string
	from, to string // what is replaced
	adds     string // at the end
	check    string // the check that finds it; empty: it cannot be opened
	says     string
}

// Each fault that a reviewer made on purpose is found, by the check that is for it.
func TestMutants(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("testdata", "byhand", "main.c"))
	if err != nil {
		t.Fatal(err)
	}
	cases, err := ReadCases(filepath.Join("testdata", "byhand"))
	if err != nil {
		t.Fatal(err)
	}
	const contractOf = "\nEXPORT(pintle_contract) int contract(u32 oldest, u32 newest) { (void)oldest; (void)newest; return %; }\n"
	for _, m := range []mutant{
		{name: "reset is ignored", from: "if (f.number == 2 && f.value) {", to: "if (f.number == 200 && f.value) {",
			check: "what was removed is gone", says: "(reset)"},
		{name: "node_remove is ignored", from: "if (op->value < NODES)\n", to: "if (0)\n",
			check: "what was removed is gone", says: "node that was removed"},
		{name: "class_remove is ignored", from: "if (op->value < CLASSES)\n", to: "if (0)\n",
			check: "what was removed is gone", says: "class that was removed"},
		{name: "free does nothing", from: "u32 *block = (u32 *)at - 2;\n", to: "u32 *block = (u32 *)at - 2;\n\treturn;\n",
			check: "buffers are given back", says: "not used again"},
		{name: "a question leaves 128 KiB behind", from: "\tconst struct class *c = &classes[class];\n", to: "\tconst struct class *c = &classes[class];\n\t*(volatile u8 *)alloc(131072 - 8) = 1;\n",
			check: "memory stays"},
		{name: "a question leaves 4 KiB behind", from: "\tconst struct class *c = &classes[class];\n", to: "\tconst struct class *c = &classes[class];\n\t*(volatile u8 *)alloc(4096 - 8) = 1;\n",
			check: "memory stays", says: "leaves something behind"},
		{name: "errors have no words", from: "return span(fault)", to: "return span(\"\")",
			check: "no such plugin, class or node", says: "without words"},
		{name: "nothing to say about a class, and refuses all", from: "out[i] = other ? 1 :", to: "out[i] = 1 ? 1 :",
			adds:  "\nEXPORT(pintle_idle) int idle(u32 plugin, u32 class) { (void)plugin; (void)class; return 1; }\n",
			check: "nothing to say about a class", says: "pintle_idle"},
		{name: "evaluate answers nothing", adds: "\nEXPORT(pintle_evaluate) int evaluate(u32 d, u32 s, u32 r, u32 w, u64 *out, u32 room) { (void)d; (void)s; (void)r; (void)w; (void)room; *out = 0; return 0; }\n",
			check: "all of a decision in one call", says: "0 filters"},
		{name: "evaluate does not say how much it answered", adds: "\nEXPORT(pintle_evaluate) int evaluate(u32 d, u32 s, u32 r, u32 w, u64 *out, u32 room) { (void)d; (void)s; (void)r; (void)w; (void)room; (void)out; return 0; }\n",
			check: "all of a decision in one call", says: "-1 answers"},
		{name: "the clock is read", from: "out[i] = other ? 1 :", to: "out[i] = other || ({ extern __attribute__((import_module(\"wasi_snapshot_preview1\"), import_name(\"clock_time_get\"))) int clock_time_get(int, u64, u64 *); " +
			"static u64 now; clock_time_get(0, 1, &now); (now / 3600000000000ull) % 2; }) ? 1 :",
			check: "the clock", says: "it reads the clock"},
		{name: "expires without pintle_until", from: `\"kind\":\"predicate\",`, to: `\"kind\":\"predicate\",\"expires\":true,`, says: "exports no pintle_until"},
		{name: "expires in an old contract", from: `\"kind\":\"predicate\",`, to: `\"kind\":\"predicate\",\"expires\":true,`,
			adds: "\nEXPORT(pintle_until) long long until(u32 plugin) { (void)plugin; return 0; }\n", says: "since contract 4"},
		{name: "pintle_contract 99", adds: strings.ReplaceAll(contractOf, "%", "99"), says: "pintle_contract answers 99"},
		{name: "pintle_contract 0", adds: strings.ReplaceAll(contractOf, "%", "0"), says: "pintle_contract answers 0"},
		{name: "pintle_contract -6", adds: strings.ReplaceAll(contractOf, "%", "-6"), says: "pintle_contract answers -6"},
		{name: "pintle_contract beside another contract", adds: strings.ReplaceAll(contractOf, "%", "2"), says: "pintle_describe says contract 1"},
		{name: "contract 0", from: `\"contract\":1`, to: `\"contract\":0`, says: "contract 0"},
		{name: "an optional export of another signature", adds: "\nEXPORT(pintle_idle) int idle(u32 plugin) { (void)plugin; return 0; }\n", says: "pintle_idle has signature i:i, want ii:i"},
	} {
		t.Run(m.name, func(t *testing.T) {
			text := string(source) + m.adds
			if m.from != "" {
				if strings.Count(string(source), m.from) != 1 {
					t.Fatalf("main.c has %q %d times", m.from, strings.Count(string(source), m.from))
				}
				text = strings.Replace(text, m.from, m.to, 1)
			}
			results, err := checkModule(t, compileC(t, text), artifact.Options{}, Options{Seeds: 4, Words: WordsOf(cases)})
			if m.check == "" {
				if err == nil || !strings.Contains(err.Error(), m.says) {
					t.Errorf("it is opened with %v, want an error with %q", err, m.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range Faults(results) {
				if f.Check == m.check && strings.Contains(f.Fault, m.says) {
					return
				}
			}
			t.Errorf("want a fault in %q with %q, got %+v", m.check, m.says, Faults(results))
		})
	}
}

// A description that does not say which contract it is of speaks the first, as ABI.md says.
func TestContractMayBeMissing(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("testdata", "byhand", "main.c"))
	if err != nil {
		t.Fatal(err)
	}
	results, err := checkModule(t, compileC(t, strings.Replace(string(source), `\"contract\":1,`, "", 1)), artifact.Options{}, Options{Seeds: 2})
	if err != nil || len(Faults(results)) > 0 {
		t.Errorf("%v, %+v", err, Faults(results))
	}
}

// A memory that has another name than ABI.md gives it is said to be missing.
func TestMemoryHasItsName(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("testdata", "byhand", "main.c"))
	if err != nil {
		t.Fatal(err)
	}
	path := compileC(t, string(source))
	module, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const name = "\x06memory"
	if strings.Count(string(module), name) != 1 {
		t.Fatalf("the module has the name of its memory %d times", strings.Count(string(module), name))
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(module), name, "\x06Memory", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := checkModule(t, path, artifact.Options{}, Options{}); err == nil || !strings.Contains(err.Error(), `no memory as "memory"`) {
		t.Errorf("it is opened with %v", err)
	}
}

// The suite does not wait for the same loop again and again.
func TestStopsAtTheFirstHang(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("testdata", "byhand", "main.c"))
	if err != nil {
		t.Fatal(err)
	}
	const asked = "\tconst struct class *c = &classes[class];\n"
	short := artifact.Options{CallTimeout: 3 * time.Second}
	results, err := checkModule(t, compileC(t, strings.Replace(string(source), asked, asked+"\tfor (volatile int i = 0;; i++)\n\t\t;\n", 1)), short, Options{})
	if err != nil {
		t.Fatal(err)
	}
	faults, after := Faults(results), 0
	for _, r := range results {
		if strings.Contains(r.Skipped, "had no answer") {
			after++
		}
	}
	if len(faults) != 1 || !strings.Contains(faults[0].Fault, "pintle_filter: no answer in 3s") || after < 5 {
		t.Errorf("%d checks were left out, faults: %+v", after, faults)
	}
	_, err = checkModule(t, compileC(t, string(source)+"\nEXPORT(_initialize) void start(void) { for (volatile int i = 0;; i++); }\n"), short, Options{})
	if !errors.Is(err, artifact.ErrNoAnswer) || !strings.Contains(err.Error(), "_initialize") {
		t.Errorf("a start that loops: %v", err)
	}
}

// checkModule runs the suite on the module at path.
func checkModule(t *testing.T, path string, o artifact.Options, with Options) ([]Result, error) {
	t.Helper()
	m, err := artifact.LoadModule(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(t.Context())
	return Check(t.Context(), m.Open, with)
}
