"""The programs that loggers are for: serves Trackio's dashboard, and reads back what TensorBoard and Trackio have of a run, as JSON."""

import contextlib
import json
import sys
import time


def serve():
    import trackio

    with contextlib.redirect_stdout(sys.stderr):  # what it says to people
        _app, _url, _share, full_url = trackio.show(open_browser=False, block_thread=False, share=False)
    print(full_url, flush=True)
    while True:
        time.sleep(60)


def tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    tags = events.Tags()
    points = [[tag, point.step, point.value] for tag in tags["scalars"] for point in events.Scalars(tag)]
    text = events.Tensors("config/text_summary")[-1].tensor_proto.string_val[0].decode()
    return {"points": points, "config": json.loads(text.removeprefix("```json\n").removesuffix("\n```"))}


def trackio(project, name):
    from trackio import Api
    from trackio.sqlite_storage import SQLiteStorage

    runs = [run for run in Api().runs(project) if run.name == name]
    assert len(runs) == 1, runs
    logs = SQLiteStorage.get_logs(project, name, run_id=runs[0].id)
    points = [
        [tag, row["step"], value]
        for row in logs
        for tag, value in row.items()
        if isinstance(value, (int, float)) and tag not in ("step", "timestamp")
    ]
    return {"points": points, "config": runs[0].config}


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "serve":
        serve()
    else:
        print(json.dumps({"tensorboard": tensorboard, "trackio": trackio}[what](*arguments)))
