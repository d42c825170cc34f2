package server

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// methods returns every method that package rpc names.
func methods(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../rpc/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(v.Names[0].Name, "Method") || len(v.Values) != 1 {
				return true
			}
			if lit, ok := v.Values[0].(*ast.BasicLit); ok {
				name, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, name)
			}
			return true
		})
	}
	if len(out) < 20 {
		t.Fatalf("only %d methods were found", len(out))
	}
	return out
}

// A worker or a stranger must not propose, vote or join by calling what servers
// call, nor a server act for a worker: over a real connection, for every method.
func TestMethodsAreForTheirRole(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	allowed := make(chan string, 1)
	s := &Server{}
	mux := rpc.NewMux(ln)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = mux.Serve(ctx, func() rpc.Hello { return rpc.Hello{Role: rpc.RoleServer, Name: "s1"} }, nil,
			func(ctx context.Context, r *rpc.Request) (any, error) {
				if mayCall(r.Method, r.Conn.Peer()) == nil { // the server behind isn't started
					allowed <- r.Method
					return rpc.Empty{}, nil
				}
				return s.handle(ctx, r)
			}, rpc.WithErrorEncoder(encodeError), rpc.WithLogger(testLog(t)))
	}()
	defer func() { cancel(); <-served }()
	for _, role := range []string{rpc.RoleServer, rpc.RoleWorker, "client", ""} {
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c, err := rpc.Dial(ctx, nc, rpc.Hello{Role: role, Name: "p"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, method := range methods(t) {
			err := c.Call(ctx, method, rpc.Empty{}, nil)
			var answer *rpc.Error
			switch may := strings.HasPrefix(method, role+"."); {
			case may && (err != nil || <-allowed != method):
				t.Errorf("%s from a %q: %v", method, role, err)
			case !may && (!errors.As(err, &answer) || answer.Code != string(job.CodeForbidden)):
				t.Errorf("%s from a %q got %v, want forbidden", method, role, err)
			}
		}
		_ = c.Close()
		c.Wait()
	}
}
