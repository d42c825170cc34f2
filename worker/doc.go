// Package worker runs attempts: commands, http calls and Go handlers, under a
// lease that it renews with the leader. A program imports it to offer handlers:
//
//	w, err := worker.New(worker.Config{Name: "w1", Join: []string{"127.0.0.1:7482"}})
//	w.Handle("resize", func(ctx context.Context, t worker.Task) ([]byte, error) { ... })
//	err = w.Run(ctx)
package worker
